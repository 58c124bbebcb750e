// The steps of a root: lists and measures them, and removes some.
//
//   auto plan = holdfast::PlanPrune("/run", {.keep = LatestN{3}});
//   holdfast::Prune("/run", *plan);          // into the trash
//   holdfast::UndeleteStep("/run", 7);       // and back
//   holdfast::EmptyTrash("/run");
//
// A step is removed by a single rename into `<root>/.holdfast_trash/`, and its
// files are deleted there: a partly deleted step never exists under its name. A
// step in the trash that is to be deleted right away has the suffix ".removing"
// and cannot be restored; everything else there waits for EmptyTrash.
// Thread-safety: any thread; several processes may do all of this concurrently.
// Ownership: none. Units: bytes; nanoseconds since 1970-01-01 UTC.
// Errors: NotFound (no root, no such step), those of the file system.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/export.h"
#include "holdfast/status.h"
#include "holdfast/steps/preservation_policy.h"
#include "holdfast/steps/step_names.h"
#include "holdfast/steps/step_record.h"

namespace holdfast HOLDFAST_EXPORT {

inline constexpr std::string_view kTrashDirectoryName = ".holdfast_trash";

// A directory in a root whose name is that of a step.
struct ScannedStep {
  int64_t step = 0;
  std::string name;
  // Committed according to its name or its marker, and `_CHECKPOINT_METADATA`
  // does not say that the save began and never finished.
  bool committed = false;
  // As recorded; otherwise the directory's modification time, in whole seconds.
  int64_t commit_time_ns = 0;
  // Text of its metrics item; absent if that is damaged, or not JSON.
  std::optional<std::string> metrics_json;
};

struct ScanOptions {
  // Null: every format that Orbax's checkpoint_steps accepts, with digits at
  // the end.
  std::shared_ptr<const StepNameFormat> format;
  // Also list temporary directories (uncommitted), by the step in their name.
  bool include_uncommitted = false;
  // If false, reads names only; commit_time_ns is 0, and no file is opened.
  bool read_metadata = true;
  // 0: chosen by the number of steps.
  int thread_count = 0;
};

// Sorted by step, then name. Empty when there is no `root`; a step that
// disappears during the scan is left out.
Result<std::vector<ScannedStep>> ScanSteps(const std::string& root,
                                           const ScanOptions& options = {});

// The same for the directories at `paths`, in their order and with the path as
// name; directories that do not exist are left out.
Result<std::vector<ScannedStep>> DescribeSteps(
    const std::vector<std::string>& paths);

// For a reader that asked for the newest step and could not read it. DataLoss
// if the step is damaged, naming the newest intact step among `others`:
// silently reading that one would lose work. Ok otherwise. `met` is the damage
// that the reader found; if empty, the step is examined.
Status CheckNewestStep(const std::string& root, const FoundStep& newest,
                       std::string_view met, std::vector<FoundStep> others);

// InvalidArgument when `root` is a checkpoint, or an item in one: a manager
// there would find no steps, and would put its own into the checkpoint. Ok when
// `root` does not exist.
Status CheckMayHoldSteps(const std::string& root);
// True when `path` is a directory of steps rather than a checkpoint.
bool IsRootOfSteps(const std::string& path);
// Like Open, but returns null for a directory of steps: one look answers both
// questions, which saves a list request in a bucket.
Result<std::unique_ptr<Checkpoint>> OpenUnlessRoot(
    const std::string& path, const OpenOptions& options = {});

// The path of the step that an address means. Open and all functions that read
// accept addresses, too: ROOT and one of
//   @step=120  @latest  @2026-11-01  @2026-11-01T12:00  @2h ago
//   @best:loss  @best:max:accuracy
// A time (UTC; s, m, h, d and w ago) means the newest step committed by then;
// the best is the step with the smallest, or the largest, metric (the newest of
// several equal ones). Any other path, and one that exists under this very
// name, is returned unchanged. NotFound lists the existing steps or metrics;
// InvalidArgument for an '@' after a directory with none of these forms.
Result<std::string> ResolveStepAddress(const std::string& path);

// --- Trash ---

enum class TrashUse : uint8_t {
  kKeep,    // until EmptyTrash; UndeleteStep restores it
  kRemove,  // deleted now, or by cleanup after a crash
};

// Renames each `<root>/<name>` into the trash, makes that durable, and returns
// the paths there. Missing names are left out. InvalidArgument unless each name
// is a plain directory name. If the trash does not exist and cannot be made, a
// step that is to be deleted gets a temporary name in the root instead.
Result<std::vector<std::string>> TrashSteps(
    const std::string& root, const std::vector<std::string>& names,
    TrashUse use);
// The same for a single step. NotFound if it does not exist.
Result<std::string> TrashStep(const std::string& root, const std::string& name,
                              TrashUse use = TrashUse::kRemove);

// Deletes the files of a step from where TrashSteps has put it, and the trash
// if nothing else is in it. In a bucket a step keeps its name, and another save
// may write there again: only files still marked for removal are deleted.
Status RemoveTrashed(const std::string& path);

// Where steps that are not kept go, by the options of a manager.
struct DisposalOptions {
  // A directory in the root, where they are kept. Ignored on gs://, as in
  // Orbax: steps are deleted there.
  std::optional<std::string> todelete_subdir;
  // For object stores: they are kept there, in their bucket, under names with
  // the time.
  std::optional<std::string> todelete_full_path;
};
// Makes the steps with these names disappear from a root immediately, except
// those that a view or a delta elsewhere in the root refers to. Unimplemented
// for todelete_full_path outside of buckets.
struct DisposedSteps {
  // Paths that RemoveTrashed must still delete; steps that are kept elsewhere
  // are not included.
  std::vector<std::string> to_remove;
  // The names that others refer to: try again when those were removed.
  std::vector<std::string> needed;
};
Result<DisposedSteps> DisposeOfSteps(const std::string& root,
                                     const std::vector<std::string>& names,
                                     const DisposalOptions& options = {});
// Leftovers of programs that ended too early, to be passed to RemoveTrashed.
std::vector<std::string> DisposalLeftovers(const std::string& root);

struct TrashedStep {
  std::string name;  // its name in the root
  int64_t step = 0;
  std::string path;
  int64_t trashed_time_ns = 0;
  bool is_being_removed = false;
};
// Oldest first; empty when there is no trash.
Result<std::vector<TrashedStep>> ListTrash(const std::string& root);

// Gives the step that most recently went into the trash its name back, and
// likewise what it refers to (the bases of a delta, the sources of a view) if
// that is in the trash, too. Returns the step's path. FailedPrecondition for a
// delta whose base was removed or replaced: it stays in the trash. NotFound if
// the step is not in the trash; AlreadyExists if a step with its name exists.
Result<std::string> UndeleteStep(const std::string& root, int64_t step);

struct EmptiedTrash {
  uint64_t step_count = 0;
  uint64_t bytes = 0;
  // Directories that hold no checkpoint, and were not marked for immediate
  // deletion, are kept.
  std::vector<std::string> left_alone;  // paths
};
// Deletes the contents of the trash: all checkpoints, or only those that were
// marked for immediate deletion (`only_leftovers`).
Result<EmptiedTrash> EmptyTrash(const std::string& root,
                                bool only_leftovers = false);

// Deletes a directory and everything below it. Links are removed, never
// followed. Ok if the directory does not exist.
Status RemoveDirectoryTree(const std::string& path);

// --- Pruning ---

struct PruneRule {
  std::string label;  // for messages: "the latest 3"
  PreservationPolicy policy;
};

struct PruneOptions {
  // A step is kept if any of the rules keeps it. REQUIRES: at least one rule.
  std::vector<PruneRule> keep;
  // Null: the format of most of the root's steps.
  std::shared_ptr<const StepNameFormat> format;
  int64_t now_ns = 0;  // 0: the clock
};

struct PruneRow {
  ScannedStep step;
  uint64_t bytes = 0;
  std::vector<std::string> kept_by;  // labels; empty: the step is removed
  // True if it may refer to other steps, as deltas and views do.
  bool may_refer = false;
};

// A directory in the root that is not one of its steps, whatever its name.
struct LeftAlone {
  std::string name;
  std::string why;  // "no checkpoint", "not named as the steps are"
};

struct PrunePlan {
  // Committed steps, sorted by step: directories that contain a checkpoint and
  // are named like the steps of this root. Nothing else is ever removed.
  std::vector<PruneRow> rows;
  std::vector<LeftAlone> left_alone;  // sorted by name
  // Bytes that the removal frees, without files that a remaining step shares by
  // hard links.
  uint64_t freed_bytes = 0;
};

// Changes nothing. The newest committed step is always kept, under the label
// "the newest", and so are the steps that a remaining view or delta in the root
// refers to, under "the view NAME" or "the delta NAME". NotFound when there is
// no root; FailedPrecondition when no format was given and two formats have
// equally many steps.
Result<PrunePlan> PlanPrune(const std::string& root,
                            const PruneOptions& options);
// Moves steps that the plan does not keep into the trash, if they still are
// checkpoints and nothing has started to refer to them since, and returns their
// names. First checks that a step that the plan keeps still exists:
// FailedPrecondition otherwise.
Result<std::vector<std::string>> Prune(const std::string& root,
                                       const PrunePlan& plan);

// --- Disk usage ---

// Files of one kind in one item of a step.
struct UsageRow {
  std::string step;  // name of the directory
  std::string item;  // "" for files directly in the step
  std::string kind;  // "data", "manifest", "metadata", "checksums"
  uint64_t file_count = 0;
  uint64_t bytes = 0;         // counted in this row
  uint64_t shared_bytes = 0;  // hard links to files counted in an earlier row
};

struct DiskUsage {
  std::vector<UsageRow> rows;  // by step, item, kind
  uint64_t temporary_bytes = 0;
  uint64_t trash_bytes = 0;
  uint64_t other_bytes = 0;  // everything else in the root
  uint64_t total_bytes = 0;  // counts each file once
  uint64_t shared_bytes = 0;
};

Result<DiskUsage> MeasureDiskUsage(const std::string& root);

}  // namespace HOLDFAST_EXPORT
