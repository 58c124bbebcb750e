// Manager: the implementation of CheckpointManager. It saves with a
// Checkpointer. After the commit, the rest of a synchronous save runs on the
// calling thread, and the rest of an asynchronous save on a thread of its own.
//
// Thread-safety: as CheckpointManager. The thread that finishes a save uses
// only the checkpointer and the disposal. No other thread uses these two until
// that thread is joined.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/orbax/checkpoint_manager.h"
#include "orbax/manager/step_disposal.h"
#include "orbax/manager/step_list.h"

namespace holdfast {

class Manager : public CheckpointManager {
 public:
  // `options` must be resolved.
  Manager(std::string directory, CheckpointManagerOptions options,
          PreservationPolicy preservation_policy);
  ~Manager() override;

  // Both must be called once, in this order.
  Status OpenRoot(const std::string& metadata);
  Status MakeCheckpointer(const ManagerItems& items);

  const std::string& directory() const override { return directory_; }
  Result<bool> Save(int64_t step, const CheckpointArgs& args,
                    const ManagerSaveOptions& options) override;
  Result<Tree> Restore(std::optional<int64_t> step, const CheckpointArgs* args,
                       const std::string& directory) override;
  std::vector<int64_t> AllSteps() override { return list_.Numbers(); }
  std::optional<int64_t> LatestStep() override { return list_.Latest(); }
  std::optional<int64_t> BestStep() override;
  Result<bool> ShouldSave(int64_t step) override;
  bool ReachedPreemption(int64_t step) override;
  Result<std::optional<Metrics>> StepMetrics(int64_t step) override;
  Result<StepMetadata> Metadata(int64_t step) override;
  Result<std::string> RootMetadata() override;
  Status Delete(int64_t step) override;
  Status Reload() override;
  Status WaitUntilFinished() override;
  Status CheckForErrors() override;
  bool IsSavingInProgress() const override { return is_saving_.load(); }
  Status Close() override;

 private:
  // A save whose commit is in progress.
  struct Finishing {
    KnownStep saved;
    std::vector<KnownStep> removed;
    std::vector<std::string> staying;
    std::thread thread;
    std::atomic<bool> is_done{false};
    Status status;  // valid once is_done
  };

  const MultiprocessingOptions& processes() const {
    return options_.multiprocessing_options;
  }
  bool is_shared() const;
  bool is_primary() const;
  Status Agree(std::string_view phase, const Status& mine) const;
  int64_t NowNs() const;
  Status CheckOpen() const;
  Status CheckArgs(const CheckpointArgs& args) const;
  // Returns the composite of all items that are saved or restored for `args`.
  CompositeArgs WholeArgs(const CheckpointArgs& args) const;
  Status Load(bool with_metadata);
  // Reads the times and metrics that a lightweight start skipped.
  Status EnsureMetadata();
  Result<bool> Decide(const StepRecord& step);
  Status LatestStepError(int64_t step, const std::string& path,
                         const Status& why) const;
  Result<bool> DecideTogether(const StepRecord& step,
                              const DecisionContext& context,
                              ProcessGroup& group) const;
  Result<std::string> ReadDirectoryOf(int64_t step,
                                      const std::string& root) const;
  // Returns the steps to remove after the save of `saved`, agreed on by all
  // processes. `ready` is a failure that this process already had.
  Result<std::vector<int64_t>> AgreeOnRemoval(KnownStep saved, Status ready);
  Result<std::optional<Metrics>> MetricsToSave(
      const ManagerSaveOptions& options) const;
  Status StartSave(int64_t step, const CheckpointArgs& args,
                   const ManagerSaveOptions& options);
  void NoteSaved(KnownStep saved, const std::vector<int64_t>& removed);
  // Removes the old steps. Runs after the commit.
  Status DisposeOfOld(const Finishing& finishing);
  // Updates the list to its state after the save in progress.
  void ApplyFinishing();
  // Joins the thread, and undoes the changes of a failed save.
  Status TakeFinished();

  const std::string directory_;
  const CheckpointManagerOptions options_;
  const std::shared_ptr<const StepNameFormat> format_;
  const SaveDecisionPolicy save_policy_;
  const PreservationPolicy preservation_policy_;
  StepDisposal disposal_;
  std::shared_ptr<CompositeCheckpointHandler> handler_;
  std::unique_ptr<Checkpointer> checkpointer_;
  AsyncCheckpointer* async_ = nullptr;  // checkpointer_, if it is one
  StepList list_;
  bool has_metadata_ = false;  // list_ has times and metrics
  // Whether checkpoints are a single item without a name; absent while unknown.
  std::optional<bool> is_default_item_;
  std::optional<std::string> root_metadata_;
  std::unique_ptr<Finishing> finishing_;
  std::atomic<bool> is_saving_{false};
  bool is_closed_ = false;
};

}  // namespace holdfast
