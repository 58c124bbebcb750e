// CheckpointManager: the steps of a training run in one directory: when to save
// one, which to keep, which is the best, and back again.
//
//   auto manager = CheckpointManager::Make("/run", {.max_to_keep = 3});
//   for (int64_t step = 0; step < n; ++step) {
//     ...
//     (*manager)->Save(step, StandardSave(state));   // true where it saved
//   }
//   (*manager)->Close();
//   ... (*manager)->Restore(std::nullopt);            // the latest step
//
// The options, their defaults and their refusals are Orbax's. It differs where
// Orbax's manager could lose a run: the last committed step of a root is never
// removed by a policy, a step on disk that this manager does not know of is
// never overwritten, and steps go through the trash (steps.h), so that no part
// of one is ever listed. Their files are removed by a thread of their own,
// which no save waits for; what it has not done at Close, Close does; what a
// crash leaves, the next manager removes.
//
// Several managers may read a root while one writes; Reload sees what is new.
// With several processes (MultiprocessingOptions::group) every one makes the
// same calls; only the primary host removes steps.
//
// Thread-safety: one thread at a time; IsSavingInProgress from any.
// Ownership: args are borrowed for the call; groups until the manager is gone.
// Units: seconds; nanoseconds since 1970-01-01 UTC.
// Errors: Orbax's texts. Its ValueError is InvalidArgument, FileNotFoundError
// is NotFound, StepAlreadyExistsError is AlreadyExists, NotImplementedError is
// Unimplemented; the rest are those of Checkpointer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/orbax/checkpoint_handler.h"
#include "holdfast/orbax/checkpointer.h"
#include "holdfast/status.h"
#include "holdfast/steps/preservation_policy.h"
#include "holdfast/steps/save_decision_policy.h"
#include "holdfast/steps/step_names.h"
#include "holdfast/steps/step_record.h"
#include "holdfast/steps/steps.h"
#include "holdfast/tree.h"

namespace holdfast HOLDFAST_EXPORT {

struct CheckpointManagerOptions {
  // --- When to save; save_decision_policy overrides the rest when set ---
  std::optional<int64_t> save_interval_steps = 1;
  std::set<int64_t> save_on_steps;
  std::function<bool(int64_t step, std::optional<int64_t> latest)>
      should_save_fn;
  std::optional<SaveDecisionPolicy> save_decision_policy;
  // False: policies are told that no save runs.
  bool enable_should_save_is_saving_in_progress_check = true;
  // Tells whether the machine is about to be taken away (preemption.h). Every
  // process must get the same answer, unless there is a decision_group.
  std::function<bool(int64_t step)> reached_preemption;
  // A group on a transport of its own, by which processes agree on decisions
  // while a save uses the other. Several processes need it for
  // ContinuousCheckpointingPolicy. Borrowed.
  ProcessGroup* decision_group = nullptr;

  // --- Steps to keep: a step stays if any of these keeps it ---
  std::optional<int64_t> max_to_keep;
  std::optional<double> keep_time_interval_seconds;
  std::optional<int64_t> keep_period;
  // Excludes the three above.
  std::optional<PreservationPolicy> preservation_policy;

  // --- Metrics ---
  MetricFn best_fn;               // max_to_keep then keeps the best
  std::string best_mode = "max";  // or "min"
  bool keep_checkpoints_without_metrics = true;
  bool prevent_write_metrics = false;

  // --- Names ---
  std::optional<std::string> step_prefix;
  std::optional<int> step_format_fixed_length;
  // The two above are then ignored.
  std::shared_ptr<const StepNameFormat> step_name_format;
  bool single_host_load_and_broadcast = false;

  // --- The directory ---
  bool create = true;
  // Removes what interrupted saves left, and nothing else.
  bool cleanup_tmp_directories = false;
  bool read_only = false;
  bool save_root_metadata = true;
  // The steps' times and metrics are read only when they are asked for.
  bool lightweight_initialize = false;

  // --- Deletion ---
  // Steps stay elsewhere instead; see DisposalOptions. The second is
  // Unimplemented outside of gs://.
  std::optional<std::string> todelete_subdir;
  std::optional<std::string> todelete_full_path;
  // Also the renames into the trash are left to the thread that removes.
  bool enable_background_delete = false;
  int num_deletion_threads = 0;  // 0: one

  // --- Saving ---
  bool enable_async_checkpointing = true;
  AsyncOptions async_options;
  MultiprocessingOptions multiprocessing_options;
  bool enable_per_process_directory_creation = false;
  std::optional<uint32_t> directory_mode;  // as SaveOptions
  CommittedBy committed_by;                // commit mode of saves, too
  bool sync = true;                        // as SaveOptions
  bool write_digests = true;               // as SaveOptions

  // --- The world ---
  std::function<uint64_t()> now_ns;              // as SaveOptions
  std::function<void(const std::string&)> warn;  // empty: nobody is told
};

// The options without what read_only takes away, of which `warn` is told.
// InvalidArgument for values that contradict each other. Make does this first.
Result<CheckpointManagerOptions> CheckedManagerOptions(
    CheckpointManagerOptions options);

// The policies that the options name, or that the older options stand for.
// InvalidArgument for a preservation_policy beside older options.
SaveDecisionPolicy SavePolicyOf(const CheckpointManagerOptions& options);
Result<PreservationPolicy> PreservationPolicyOf(
    const CheckpointManagerOptions& options);

// The handlers of items; set at most one of these members.
struct ManagerItems {
  std::optional<std::vector<std::string>> item_names;
  std::map<std::string, std::shared_ptr<CheckpointHandler>> item_handlers;
  // The checkpoint is one item without a name.
  std::shared_ptr<CheckpointHandler> default_item_handler;
  const CheckpointHandlerRegistry* handler_registry = nullptr;  // copied
};

struct ManagerSaveOptions {
  // A Dict of numbers; saved when there is a best_fn.
  std::optional<Tree> metrics;
  // Saves whatever the policy says, and in a read-only manager too. Never
  // overwrites.
  bool force = false;
  std::string custom_metadata;  // a JSON object, or empty
};

class CheckpointManager {
 public:
  // `metadata`: a JSON object of the whole run, written once; or empty.
  static Result<std::unique_ptr<CheckpointManager>> Make(
      const std::string& directory, CheckpointManagerOptions options = {},
      const ManagerItems& items = {}, const std::string& metadata = "");
  // As Close, but errors are lost.
  virtual ~CheckpointManager() = default;

  virtual const std::string& directory() const = 0;

  // True when it saved: false when the policy says no, or a later step exists.
  // Returns when the args may change. AlreadyExists "Checkpoint for step N
  // already exists."; the error of the save before, in place of saving.
  virtual Result<bool> Save(int64_t step, const CheckpointArgs& args,
                            const ManagerSaveOptions& options = {}) = 0;
  // One item without a name gives its value, several a Dict of items. No step:
  // the latest. Null args: as it was saved. `directory`: another root. Waits
  // for a running save.
  virtual Result<Tree> Restore(std::optional<int64_t> step,
                               const CheckpointArgs* args = nullptr,
                               const std::string& directory = "") = 0;

  // As of the last Save, Delete or Reload; includes the step that is being
  // saved.
  virtual std::vector<int64_t> AllSteps() = 0;
  virtual std::optional<int64_t> LatestStep() = 0;
  // The best by best_fn; without one the latest. Absent when no step has
  // metrics.
  virtual std::optional<int64_t> BestStep() = 0;
  virtual Result<bool> ShouldSave(int64_t step) = 0;
  virtual bool ReachedPreemption(int64_t step) = 0;
  // Read from the step's directory; absent when it has none.
  virtual Result<std::optional<Metrics>> StepMetrics(int64_t step) = 0;
  // Waits for a save that runs.
  virtual Result<StepMetadata> Metadata(int64_t step) = 0;
  // The JSON object given to Make when the root was new; "{}" without one.
  virtual Result<std::string> RootMetadata() = 0;

  // NotFound "Requested deleting a non-existent step: N." Deletes the last
  // step, too, when it is named.
  virtual Status Delete(int64_t step) = 0;
  virtual Status Reload() = 0;
  // Waits until the step that is being saved is durable and older ones are out
  // of the way; not until their files are removed.
  virtual Status WaitUntilFinished() = 0;
  // Does not wait; also reports errors of removals.
  virtual Status CheckForErrors() = 0;
  virtual bool IsSavingInProgress() const = 0;
  // Waits for the save and the removals. Later calls but Close are
  // FailedPrecondition.
  virtual Status Close() = 0;
};

}  // namespace holdfast
