// Lists, measures and removes the steps of a root.
//
//   auto plan = holdfast::PlanPrune("/run", {.keep = LatestN{3}});
//   holdfast::Prune("/run", *plan);          // into the trash
//   holdfast::UndeleteStep("/run", 7);       // and back
//   holdfast::EmptyTrash("/run");
//
// A step is removed by a single rename into `<root>/.holdfast_trash/`, and its
// files are deleted there. So a partly deleted step never exists under its own
// name. A step in the trash that is to be deleted immediately has the suffix
// ".removing" and cannot be restored; all other steps there are kept until
// EmptyTrash.
//
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

// A directory in a root with the name of a step.
struct ScannedStep {
  int64_t step = 0;
  std::string name;
  // True if its name or its marker says that it is committed, and
  // `_CHECKPOINT_METADATA` does not say that the save began and never finished.
  bool committed = false;
  // The recorded time, or else the directory's modification time in whole
  // seconds.
  int64_t commit_time_ns = 0;
  // Text of its metrics item; absent if that is damaged, or not JSON.
  std::optional<std::string> metrics_json;
};

struct ScanOptions {
  // Null: every format that Orbax's checkpoint_steps accepts; names end with
  // digits.
  std::shared_ptr<const StepNameFormat> format;
  // Also list temporary directories, which are uncommitted, by the step in
  // their name.
  bool include_uncommitted = false;
  // If false, reads names only; commit_time_ns is 0, and no file is opened.
  bool read_metadata = true;
  // 0: chosen by the number of steps.
  int threads = 0;
};

// Lists the steps in `root`, sorted by step, then name. Empty if `root` does
// not exist. A step that disappears during the scan is left out.
Result<std::vector<ScannedStep>> ScanSteps(const std::string& root,
                                           const ScanOptions& options = {});

// The same for the directories at `paths`, in the order of `paths` and with the
// path as name. Directories that do not exist are left out.
Result<std::vector<ScannedStep>> DescribeSteps(
    const std::vector<std::string>& paths);

// Explains why a reader that wanted the newest step could not read it. Returns
// DataLoss if the step is damaged, naming the newest intact step among
// `others`; otherwise ok. (To read that intact step silently would lose work.)
// `met` is the damage that the reader found; if empty, this function examines
// the step.
Status CheckNewestStep(const std::string& root, const FoundStep& newest,
                       std::string_view met, std::vector<FoundStep> others);

// Fails with InvalidArgument if `root` is a checkpoint, or an item in a
// checkpoint: a manager there would find no steps, and would put new steps into
// the checkpoint. Ok if `root` does not exist.
Status CheckMayHoldSteps(const std::string& root);
// Returns true if `path` is a directory of steps rather than a checkpoint.
bool IsRootOfSteps(const std::string& path);
// Like Open, but returns null for a directory of steps. In a bucket, this needs
// one list request less than IsRootOfSteps and Open.
Result<std::unique_ptr<Checkpoint>> OpenUnlessRoot(
    const std::string& path, const OpenOptions& options = {});

// Returns the path of the step that an address refers to. Open and all
// functions that read accept addresses, too. An address is ROOT followed by one
// of
//   @step=120  @latest  @2026-11-01  @2026-11-01T12:00  @2h ago
//   @best:loss  @best:max:accuracy
// A time (UTC; ago in s, m, h, d or w) refers to the newest step that was
// committed by then. `@best` refers to the step with the smallest metric, or
// with `max` the largest; of several equal steps, the newest. Any other path,
// and a path that exists under exactly this name, is returned unchanged.
// NotFound lists the existing steps or metrics; InvalidArgument if an '@' after
// a directory is not followed by one of these forms.
Result<std::string> ResolveStepAddress(const std::string& path);

// --- Trash ---

enum class TrashUse : uint8_t {
  kKeep,    // keep until EmptyTrash; UndeleteStep can restore it
  kRemove,  // to be deleted now, or after a crash by the next cleanup
};

// Renames each `<root>/<name>` into the trash, durably, and returns the new
// paths. Names that do not exist are left out. InvalidArgument unless each name
// is a plain directory name. If the trash does not exist and cannot be made, a
// step that is to be deleted gets a temporary name in the root instead.
Result<std::vector<std::string>> TrashSteps(
    const std::string& root, const std::vector<std::string>& names,
    TrashUse use);
// The same for a single step. NotFound if it does not exist.
Result<std::string> TrashStep(const std::string& root, const std::string& name,
                              TrashUse use = TrashUse::kRemove);

// Deletes the files of a step at the path that TrashSteps returned, and the
// trash if nothing else is in it. In a bucket a step keeps its name, so another
// save may write there again; only files that are still marked for removal are
// deleted.
Status RemoveTrashed(const std::string& path);

// Where a manager moves the steps that it does not keep.
struct DisposalOptions {
  // A directory in the root to which steps are moved. Ignored on gs://, where
  // steps are deleted, as in Orbax.
  std::optional<std::string> todelete_subdir;
  // For object stores: a path in the same bucket to which steps are moved.
  // Their new names include the time.
  std::optional<std::string> todelete_full_path;
};
// The result of DisposeOfSteps.
struct DisposedSteps {
  // Paths that RemoveTrashed must still delete. Does not include steps that
  // were moved.
  std::vector<std::string> to_remove;
  // Names of steps that are still in place, because views or deltas refer to
  // them. Try again when those were removed.
  std::vector<std::string> needed;
};
// Makes the steps with these names disappear from a root immediately, except
// steps that a remaining view or delta in the root refers to. Unimplemented for
// todelete_full_path outside of buckets.
Result<DisposedSteps> DisposeOfSteps(const std::string& root,
                                     const std::vector<std::string>& names,
                                     const DisposalOptions& options = {});
// Returns the paths of steps that a program disposed of but did not delete
// before it ended. Pass them to RemoveTrashed.
std::vector<std::string> DisposalLeftovers(const std::string& root);

struct TrashedStep {
  std::string name;  // its name in the root
  int64_t step = 0;
  std::string path;
  int64_t trashed_time_ns = 0;
  bool is_being_removed = false;
};
// Lists the steps in the trash, oldest first; empty if there is no trash.
Result<std::vector<TrashedStep>> ListTrash(const std::string& root);

// Moves a step back from the trash, and returns its path; if the trash has
// several with this number, the one that was moved there last. Also moves back
// the steps that it refers to (a delta's bases, a view's sources) if they are
// in the trash, too. FailedPrecondition for a delta whose base was removed or
// replaced; the delta then stays in the trash. NotFound if the step is not in
// the trash; AlreadyExists if a step with its name exists.
Result<std::string> UndeleteStep(const std::string& root, int64_t step);

struct EmptiedTrash {
  uint64_t step_count = 0;
  uint64_t bytes = 0;
  // Paths of directories that are kept, because they do not hold a checkpoint
  // and were not marked for immediate deletion.
  std::vector<std::string> left_alone;
};
// Deletes all checkpoints in the trash; with `only_leftovers`, only those that
// were marked for immediate deletion.
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
  // Null: the format that most of the root's steps have.
  std::shared_ptr<const StepNameFormat> format;
  int64_t now_ns = 0;  // 0: the current time
};

struct PruneRow {
  ScannedStep step;
  uint64_t bytes = 0;
  std::vector<std::string> kept_by;  // labels; empty: the step is removed
  // True if it may refer to other steps, as deltas and views do.
  bool may_refer = false;
};

// A directory in the root that pruning does not touch, because it is not a
// step.
struct LeftAlone {
  std::string name;
  std::string why;  // "no checkpoint", "not named as the steps are"
};

struct PrunePlan {
  // Committed steps, sorted by step: directories that contain a checkpoint and
  // are named like the steps of this root. Prune never removes anything else.
  std::vector<PruneRow> rows;
  std::vector<LeftAlone> left_alone;  // sorted by name
  // Bytes that the removal frees, not counting files that a remaining step
  // shares by hard links.
  uint64_t freed_bytes = 0;
};

// Returns what Prune would do, without changing anything. The newest committed
// step is always kept, with the label "the newest". Steps that a remaining view
// or delta in the root refers to are also kept, with the label "the view NAME"
// or "the delta NAME". NotFound if the root does not exist; FailedPrecondition
// if no format was given and two formats have equally many steps.
Result<PrunePlan> PlanPrune(const std::string& root,
                            const PruneOptions& options);
// Moves the steps that the plan does not keep into the trash, and returns their
// names. Skips steps that are no longer checkpoints, or that something refers
// to since the plan was made. FailedPrecondition, before anything is moved, if
// no step that the plan keeps still exists.
Result<std::vector<std::string>> Prune(const std::string& root,
                                       const PrunePlan& plan);

// --- Disk usage ---

// Files of one kind in one item of a step.
struct UsageRow {
  std::string step;  // name of the directory
  std::string item;  // "" for files directly in the step
  std::string kind;  // "data", "manifest", "metadata", "checksums"
  uint64_t file_count = 0;
  uint64_t bytes = 0;         // without shared_bytes
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

}  // namespace holdfast
