// CheckpointManager: the steps of a training run in one directory: when to save
// a step, which steps to keep, which is the best, and how to restore one.
//
//   auto manager = CheckpointManager::Make("/run", {.max_to_keep = 3});
//   for (int64_t step = 0; step < n; ++step) {
//     ...
//     (*manager)->Save(step, StandardSave(state));   // true where it saved
//   }
//   (*manager)->Close();
//   ... (*manager)->Restore(std::nullopt);            // the latest step
//
// Its options, their defaults and its refusals are Orbax's. It differs where
// Orbax's manager could lose a run: a policy never removes the last committed
// step of a root, a step on disk that this manager does not know about is never
// overwritten, and steps are removed through the trash (steps.h), so that a
// partly removed step is never listed. A separate thread removes their files,
// and no save waits for it; Close finishes the remaining removals, and after a
// crash the next manager does.
//
// Several managers may read a root while one writes; Reload finds new steps.
// With several processes (MultiprocessingOptions::group) every process makes
// the same calls; only the primary host removes steps.
//
// Thread-safety: one thread at a time; IsSavingInProgress from any.
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
  // --- When to save; save_decision_policy overrides the rest when set ---
  std::optional<int64_t> save_interval_steps = 1;
  std::set<int64_t> save_on_steps;
  std::function<bool(int64_t step, std::optional<int64_t> latest)>
      should_save_fn;
  std::optional<SaveDecisionPolicy> save_decision_policy;
  // If false, policies are always told that no save is running.
  bool enable_should_save_is_saving_in_progress_check = true;
  // Whether the machine is about to be preempted (preemption.h). Every process
  // must return the same answer, unless there is a decision_group.
  std::function<bool(int64_t step)> reached_preemption;
  // A group on its own transport, through which processes agree on decisions
  // while a save uses the other group. Several processes need it for
  // ContinuousCheckpointingPolicy. Borrowed.
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
  // Removes the leftovers of interrupted saves, and nothing else.
  bool cleanup_tmp_directories = false;
  bool read_only = false;
  bool save_root_metadata = true;
  // Times and metrics of steps are read only when they are needed.
  bool lightweight_initialize = false;

  // --- Deletion ---
  // Removed steps are moved there instead; see DisposalOptions. The second is
  // Unimplemented outside of gs://.
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
  std::function<uint64_t()> now_ns;              // as SaveOptions
  std::function<void(const std::string&)> warn;  // empty: no warnings
};

// Returns the options without those that read_only disables, each of which is
// reported to `warn`. InvalidArgument for contradictory values. Make calls this
// first.
Result<CheckpointManagerOptions> CheckedManagerOptions(
    CheckpointManagerOptions options);

// The policies that the options name, or that the older options stand for.
// InvalidArgument for a preservation_policy combined with older options.
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
  // A Dict of numbers; saved when there is a best_fn.
  std::optional<Tree> metrics;
  // Saves whatever the policy says, even in a read-only manager. Never
  // overwrites.
  bool force = false;
  std::string custom_metadata;  // a JSON object, or empty
};

class CheckpointManager {
 public:
  // `metadata` is a JSON object about the run, written once; or empty.
  static Result<std::unique_ptr<CheckpointManager>> Make(
      const std::string& directory, CheckpointManagerOptions options = {},
      const ManagerItems& items = {}, const std::string& metadata = "");
  // Like Close, but drops errors.
  virtual ~CheckpointManager() = default;

  virtual const std::string& directory() const = 0;

  // Returns true if it saved the step; false when the policy declines, or a
  // later step exists. Returns when the args may change. AlreadyExists
  // "Checkpoint for step N already exists."; if the previous save failed,
  // returns its error instead of saving.
  virtual Result<bool> Save(int64_t step, const CheckpointArgs& args,
                            const ManagerSaveOptions& options = {}) = 0;
  // A single item without a name gives its value, several items a Dict. Without
  // a step, restores the latest. Null args restore the step as it was saved.
  // `directory` may name another root. Waits for a running save.
  virtual Result<Tree> Restore(std::optional<int64_t> step,
                               const CheckpointArgs* args = nullptr,
                               const std::string& directory = "") = 0;

  // The steps as of the last Save, Delete or Reload, including the step that is
  // being saved.
  virtual std::vector<int64_t> AllSteps() = 0;
  virtual std::optional<int64_t> LatestStep() = 0;
  // The best step by best_fn, or without best_fn the latest. Absent when no
  // step has metrics.
  virtual std::optional<int64_t> BestStep() = 0;
  virtual Result<bool> ShouldSave(int64_t step) = 0;
  virtual bool ReachedPreemption(int64_t step) = 0;
  // Read from the step's directory; absent if it has none.
  virtual Result<std::optional<Metrics>> StepMetrics(int64_t step) = 0;
  // Waits for a running save.
  virtual Result<StepMetadata> Metadata(int64_t step) = 0;
  // The JSON object passed to Make when the root was new; otherwise "{}".
  virtual Result<std::string> RootMetadata() = 0;

  // NotFound "Requested deleting a non-existent step: N." May also delete the
  // last step.
  virtual Status Delete(int64_t step) = 0;
  virtual Status Reload() = 0;
  // Waits until the step that is being saved is durable and older ones are in
  // the trash, but not until their files are removed.
  virtual Status WaitUntilFinished() = 0;
  // Does not wait; also reports errors from removals.
  virtual Status CheckForErrors() = 0;
  virtual bool IsSavingInProgress() const = 0;
  // Waits for the save and the removals. Later calls other than Close return
  // FailedPrecondition.
  virtual Status Close() = 0;
};

}  // namespace holdfast
