// The steps of a save that Checkpointer and AsyncCheckpointer share: begin,
// finalize, commit. All processes wait for each other after each step.
//
// Thread-safety: one thread at a time; the steps may run on different threads.
// Ownership: owns the pending checkpoint, and removes it in its destructor if
// it was not committed.
// Errors: those of the handler, of PendingSave and of ProcessGroup.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "holdfast/orbax/checkpointer.h"
#include "holdfast/pending_save.h"

namespace holdfast {

// Returns the group of the processes that save together, with the primary host
// first; null for a single process. InvalidArgument for impossible lists
// of processes, Unimplemented for a primary host that is not the first of the
// listed processes.
Result<std::shared_ptr<ProcessGroup>> SavingGroup(
    const MultiprocessingOptions& options);

// Returns the first failure of the group's processes; `mine` if `group` is
// null.
Status AgreeWith(ProcessGroup* group, std::string_view phase,
                 const std::string& path, const Status& mine);

class SaveSteps {
 public:
  // REQUIRES: `path` is absolute.
  static Result<SaveSteps> Begin(std::shared_ptr<CheckpointHandler> handler,
                                 std::shared_ptr<ProcessGroup> group,
                                 const CheckpointerOptions& options,
                                 const std::string& path,
                                 const CheckpointerSaveOptions& save_options);

  const std::string& directory() const { return pending_->directory(); }
  bool is_primary() const;
  Status Agree(std::string_view phase, const Status& mine) const {
    return AgreeWith(group_.get(), phase, path_, mine);
  }
  // Calls the handler's Finalize once its futures are done on all processes.
  Status Finalize() const;
  // Commits the checkpoint, which exists if this returns ok.
  Status Commit();

 private:
  SaveSteps() = default;

  std::shared_ptr<CheckpointHandler> handler_;
  std::shared_ptr<ProcessGroup> group_;
  std::string path_;
  std::string custom_metadata_;
  std::function<void(const std::string&)> warn_;
  std::unique_ptr<PendingSave> pending_;
};

// Like Checkpointer::Restore for an absolute path, run by all processes of
// `group`. `group` may be null.
Result<Tree> RestoreWith(CheckpointHandler& handler, ProcessGroup* group,
                         CommitMode mode, const std::string& path,
                         const CheckpointArgs* args);
// Like Checkpointer::Metadata.
Result<StepMetadata> ReadMetadataWith(CheckpointHandler& handler,
                                      const std::string& path);

}  // namespace holdfast
