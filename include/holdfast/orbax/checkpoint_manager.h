// CheckpointManager: keeps the steps of a training run in one directory.
// Decides when to save a step, which steps to keep, and which is the best.
//
//   auto manager = CheckpointManager::Make("/run", {.max_to_keep = 3});
//   for (int64_t step = 0; step < n; ++step) {
//     ...
//     (*manager)->Save(step, StandardSave(state));   // true if it saved
//   }
//   (*manager)->Close();
//   ... (*manager)->Restore(std::nullopt);            // the latest step
//
// Its options, their defaults and its refusals are Orbax's. It differs where
// Orbax's manager could lose a run: a policy never removes the last committed
// step of a root, a step on disk that this manager does not know about is never
// overwritten, and steps are removed through the trash (steps.h), so that a
// partly removed step is never listed. A separate thread deletes the files of
// removed steps; saves do not wait for it. Close finishes the remaining
// deletions; after a crash, the next manager does.
//
// Several managers may read a root while one writes; Reload finds new steps.
// With several processes (MultiprocessingOptions::group) every process makes
// the same calls; only the primary host removes steps.
//
// Thread-safety: one thread at a time; IsSavingInProgress from any thread.
// Ownership: args are borrowed for the call; groups for the manager's lifetime.
// Units: seconds; nanoseconds since 1970-01-01 UTC.
// Errors: with Orbax's messages. ValueError is InvalidArgument,
// FileNotFoundError is NotFound, StepAlreadyExistsError is AlreadyExists,
// NotImplementedError is Unimplemented; the rest are those of Checkpointer.
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
  // --- When to save: save_decision_policy, if set, overrides the rest ---
  std::optional<int64_t> save_interval_steps = 1;
  std::set<int64_t> save_on_steps;
  std::function<bool(int64_t step, std::optional<int64_t> latest)>
      should_save_fn;
  std::optional<SaveDecisionPolicy> save_decision_policy;
  // If false, policies are always told that no save is running.
  bool enable_should_save_is_saving_in_progress_check = true;
  // Returns whether the machine is about to be preempted (preemption.h). Must
  // return the same answer on every process, unless decision_group is set.
  std::function<bool(int64_t step)> reached_preemption;
  // A second group, on its own transport, through which processes agree on
  // decisions while a save uses MultiprocessingOptions::group. Several
  // processes need it for ContinuousCheckpointingPolicy. Borrowed.
  ProcessGroup* decision_group = nullptr;

  // --- Steps to keep: a step stays if any of these keeps it ---
  std::optional<int64_t> max_to_keep;
  std::optional<double> keep_time_interval_seconds;
  std::optional<int64_t> keep_period;
  // May not be combined with the three above.
  std::optional<PreservationPolicy> preservation_policy;

  // --- Metrics ---
  MetricFn best_fn;               // if set, max_to_keep keeps the best
  std::string best_mode = "max";  // or "min"
  bool keep_checkpoints_without_metrics = true;
  bool prevent_write_metrics = false;

  // --- Names ---
  std::optional<std::string> step_prefix;
  std::optional<int> step_format_fixed_length;
  // If set, the two above are ignored.
  std::shared_ptr<const StepNameFormat> step_name_format;
  bool single_host_load_and_broadcast = false;

  // --- The directory ---
  bool create = true;
  // Make removes the leftovers of interrupted saves, and nothing else.
  bool cleanup_tmp_directories = false;
  bool read_only = false;
  bool save_root_metadata = true;
  // Read the steps' times and metrics only when they are needed.
  bool lightweight_initialize = false;

  // --- Deletion ---
  // Steps are moved there instead of being deleted; see DisposalOptions.
  // todelete_full_path is Unimplemented outside of gs://.
  std::optional<std::string> todelete_subdir;
  std::optional<std::string> todelete_full_path;
  // The thread that removes steps also renames them into the trash.
  bool enable_background_delete = false;
  int num_deletion_threads = 0;  // 0: one thread

  // --- Saving ---
  bool enable_async_checkpointing = true;
  AsyncOptions async_options;
  MultiprocessingOptions multiprocessing_options;
  bool enable_per_process_directory_creation = false;
  std::optional<uint32_t> directory_mode;  // as SaveOptions
  CommittedBy committed_by;                // also the commit mode of saves
  bool sync = true;                        // as SaveOptions
  bool write_digests = true;               // as SaveOptions

  // --- The world ---
  std::function<uint64_t()> now_ns;  // as SaveOptions
  // Receives warnings, also on the thread that commits; empty: no warnings.
  std::function<void(const std::string&)> warn;
};

// Returns the options without those that read_only disables, and reports each
// of these to `warn`. InvalidArgument for contradictory values. Make calls this
// first.
Result<CheckpointManagerOptions> CheckedManagerOptions(
    CheckpointManagerOptions options);

// Return the policies in the options, or those that correspond to the older
// options. InvalidArgument for a preservation_policy combined with older
// options.
SaveDecisionPolicy SavePolicyOf(const CheckpointManagerOptions& options);
Result<PreservationPolicy> PreservationPolicyOf(
    const CheckpointManagerOptions& options);

// The handlers for items; set at most one of these members.
struct ManagerItems {
  std::optional<std::vector<std::string>> item_names;
  std::map<std::string, std::shared_ptr<CheckpointHandler>> item_handlers;
  // The checkpoint is a single item without a name.
  std::shared_ptr<CheckpointHandler> default_item_handler;
  const CheckpointHandlerRegistry* handler_registry = nullptr;  // copied
};

struct ManagerSaveOptions {
  // A Dict of numbers; saved only if the manager has a best_fn.
  std::optional<Tree> metrics;
  // Saves whatever the policy says, even in a read-only manager. Never
  // overwrites.
  bool force = false;
  std::string custom_metadata;  // a JSON object, or empty
};

class CheckpointManager {
 public:
  // Makes a manager of the root at `directory`. `metadata` is a JSON object
  // about the run, which is written when the root is new; or empty.
  static Result<std::unique_ptr<CheckpointManager>> Make(
      const std::string& directory, CheckpointManagerOptions options = {},
      const ManagerItems& items = {}, const std::string& metadata = "");
  // Like Close, but drops errors.
  virtual ~CheckpointManager() = default;

  virtual const std::string& directory() const = 0;

  // Saves the step, and returns true; returns false if the policy declines, or
  // a later step exists. The args may change once it has returned. If the
  // previous save failed, returns that save's error instead of saving.
  // AlreadyExists "Checkpoint for step N already exists."
  virtual Result<bool> Save(int64_t step, const CheckpointArgs& args,
                            const ManagerSaveOptions& options = {}) = 0;
  // Restores a step; without `step`, the latest. Returns the value of a single
  // item without a name, or a Dict of several items. Null args restore the step
  // as it was saved. `directory` may name another root. Waits for a running
  // save.
  virtual Result<Tree> Restore(std::optional<int64_t> step,
                               const CheckpointArgs* args = nullptr,
                               const std::string& directory = "") = 0;

  // Returns the steps as of the last Save, Delete or Reload, including a step
  // that is being saved.
  virtual std::vector<int64_t> AllSteps() = 0;
  virtual std::optional<int64_t> LatestStep() = 0;
  // Returns the best step by best_fn; without best_fn, the latest. Nullopt if
  // no step has metrics.
  virtual std::optional<int64_t> BestStep() = 0;
  virtual Result<bool> ShouldSave(int64_t step) = 0;
  virtual bool ReachedPreemption(int64_t step) = 0;
  // Reads the metrics from the step's directory; nullopt if it has no metrics.
  virtual Result<std::optional<Metrics>> StepMetrics(int64_t step) = 0;
  // Waits for a running save.
  virtual Result<StepMetadata> Metadata(int64_t step) = 0;
  // Returns the JSON object that was passed to Make when the root was new, or
  // "{}".
  virtual Result<std::string> RootMetadata() = 0;

  // Deletes a step, even the last one. NotFound "Requested deleting a
  // non-existent step: N."
  virtual Status Delete(int64_t step) = 0;
  virtual Status Reload() = 0;
  // Waits until the step that is being saved is durable, and steps that are not
  // kept are in the trash. Does not wait until their files are deleted.
  virtual Status WaitUntilFinished() = 0;
  // Returns an error of a finished save or deletion that was not reported yet,
  // without waiting.
  virtual Status CheckForErrors() = 0;
  virtual bool IsSavingInProgress() const = 0;
  // Waits for the running save and the deletions. Later calls other than Close
  // return FailedPrecondition.
  virtual Status Close() = 0;
};

}  // namespace holdfast
