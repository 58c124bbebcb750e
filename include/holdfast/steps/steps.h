// The steps of a root: what is there and how large it is, and taking some away.
//
//   auto plan = holdfast::PlanPrune("/run", {.keep = LatestN{3}});
//   holdfast::Prune("/run", *plan);          // into the trash
//   holdfast::UndeleteStep("/run", 7);       // and back
//   holdfast::EmptyTrash("/run");
//
// A step goes by one rename, into `<root>/.holdfast_trash/`, and is removed
// from there: at no moment is a part of it to be found under its name. A step
// in the trash that is to be removed at once bears the suffix ".removing" and
// does not come back; everything else there waits for EmptyTrash.
// Thread-safety: any thread; several processes may do all of this at once.
// Ownership: none. Units: bytes; nanoseconds since 1970-01-01 UTC. Errors:
// NotFound (no root, no such step), those of the file system.
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

// A directory of a root whose name says that it is a step's.
struct ScannedStep {
  int64_t step = 0;
  std::string name;
  // Committed by its name, or its marker; and `_CHECKPOINT_METADATA` does not
  // say that the save began and never finished.
  bool committed = false;
  // As recorded; else the directory's own time, in whole seconds.
  int64_t commit_time_ns = 0;
  // Text of its metrics item; none when that is damaged, or no JSON.
  std::optional<std::string> metrics_json;
};

struct ScanOptions {
  // Null: every format that Orbax's checkpoint_steps knows, digits at the end.
  std::shared_ptr<const StepNameFormat> format;
  // Temporary directories too (not committed), by the step in their name.
  bool include_uncommitted = false;
  // False: names only; commit_time_ns is 0, and nothing is opened.
  bool read_metadata = true;
  // 0: as suits the number of steps.
  int thread_count = 0;
};

// Sorted by step, then name. Empty when there is no `root`; a step that
// disappears meanwhile is left out.
Result<std::vector<ScannedStep>> ScanSteps(const std::string& root,
                                           const ScanOptions& options = {});

// The same of the directories at `paths`, in their order and with the path for
// a name; those that are gone are left out.
Result<std::vector<ScannedStep>> DescribeSteps(
    const std::vector<std::string>& paths);

// The newest step, which a reader asked for, could not be read. DataLoss when
// that is because it is damaged: it names the newest of `others` that is whole,
// which to read instead would lose work without a word. Ok otherwise.
// `met`: the damage that the reader has met; empty: the step itself tells.
Status CheckNewestStep(const std::string& root, const FoundStep& newest,
                       std::string_view met, std::vector<FoundStep> others);

// InvalidArgument when `root` is a checkpoint, or an item of one: a manager
// there would find no steps, and put its own into the checkpoint. Ok when there
// is nothing.
Status CheckMayHoldSteps(const std::string& root);
// True when `path` is a directory of steps rather than a checkpoint.
bool IsRootOfSteps(const std::string& path);
// Open, but null for a directory of steps: the same look answers both, which in
// a bucket saves a list.
Result<std::unique_ptr<Checkpoint>> OpenUnlessRoot(
    const std::string& path, const OpenOptions& options = {});

// The path of the step that an address means, which Open and all that read take
// as well: ROOT and one of
//   @step=120  @latest  @2026-11-01  @2026-11-01T12:00  @2h ago
//   @best:loss  @best:max:accuracy
// A time (UTC; s, m, h, d and w ago) is the newest step committed by then; the
// best is the step of the smallest, or the largest, metric, of equals the
// newest. Any other path, and one at which something is by this very name, is
// returned as it is. NotFound says which steps or metrics there are;
// InvalidArgument for an '@' behind a directory and none of these forms.
Result<std::string> ResolveStepAddress(const std::string& path);

// --- Trash ---

enum class TrashUse : uint8_t {
  kKeep,    // until EmptyTrash; UndeleteStep brings it back
  kRemove,  // to be removed now, or by whoever cleans up after a crash
};

// Renames `<root>/<name>`s into the trash, makes that durable, and returns
// their paths there. Names that are gone already are left out. InvalidArgument
// for a name other than a plain name of a directory. When there is no trash and
// none can be made, a step that is to be removed gets a temporary name in the
// root instead.
Result<std::vector<std::string>> TrashSteps(
    const std::string& root, const std::vector<std::string>& names,
    TrashUse use);
// One of them. NotFound when it is gone already.
Result<std::string> TrashStep(const std::string& root, const std::string& name,
                              TrashUse use = TrashUse::kRemove);

// Removes the files of a step from where TrashSteps has put it, and the trash
// when nothing else is in it. In a bucket it
// keeps its name, and another save may write there again: only what is still
// marked for removal goes.
Status RemoveTrashed(const std::string& path);

// Where steps go that are not kept, by the options of a manager.
struct DisposalOptions {
  // A directory of the root, where they stay. Ignored on gs://, as in Orbax:
  // steps are removed there.
  std::optional<std::string> todelete_subdir;
  // For object stores: they stay there, in their bucket, under names with the
  // time.
  std::optional<std::string> todelete_full_path;
};
// Lets the steps of these names disappear from a root at once, except those
// that a view or a delta among the root's other directories refers to.
// Unimplemented for todelete_full_path where there are no buckets.
struct DisposedSteps {
  // Paths that are left for RemoveTrashed to remove: nothing of steps that stay
  // elsewhere.
  std::vector<std::string> to_remove;
  // The names that others refer to: try again when those have gone.
  std::vector<std::string> needed;
};
Result<DisposedSteps> DisposeOfSteps(const std::string& root,
                                     const std::vector<std::string>& names,
                                     const DisposalOptions& options = {});
// Leftovers of programs that ended too early, for RemoveTrashed.
std::vector<std::string> DisposalLeftovers(const std::string& root);

struct TrashedStep {
  std::string name;  // as it was in the root
  int64_t step = 0;
  std::string path;
  int64_t trashed_time_ns = 0;
  bool is_being_removed = false;
};
// Oldest first; none when there is no trash.
Result<std::vector<TrashedStep>> ListTrash(const std::string& root);

// Gives the step that went into the trash last its name back, and what it
// refers to (the bases of a delta, the sources of a view) theirs where they are
// in the trash, too; the step's path. FailedPrecondition for a delta of which a
// base is gone or another now: it stays in the trash. NotFound when it is not
// in the trash (any more); AlreadyExists when a step of its name is there.
Result<std::string> UndeleteStep(const std::string& root, int64_t step);

struct EmptiedTrash {
  uint64_t step_count = 0;
  uint64_t bytes = 0;
  // Directories that hold no checkpoint, and were not to be removed at once,
  // stay.
  std::vector<std::string> left_alone;  // paths
};
// Removes what is in the trash: all checkpoints, or only those that were to be
// removed at once (`only_leftovers`).
Result<EmptiedTrash> EmptyTrash(const std::string& root,
                                bool only_leftovers = false);

// Removes a directory and all below it. Links are removed, never followed. Ok
// when it is gone already.
Status RemoveDirectoryTree(const std::string& path);

// --- Pruning ---

struct PruneRule {
  std::string label;  // for messages: "the latest 3"
  PreservationPolicy policy;
};

struct PruneOptions {
  // A step is kept that one of them keeps. REQUIRES: at least one.
  std::vector<PruneRule> keep;
  // Null: the one that most of the root's steps have.
  std::shared_ptr<const StepNameFormat> format;
  int64_t now_ns = 0;  // 0: the clock
};

struct PruneRow {
  ScannedStep step;
  uint64_t bytes = 0;
  std::vector<std::string> kept_by;  // labels; none: it goes
  // It may refer to other steps, as deltas and views do.
  bool may_refer = false;
};

// A directory of the root that is not one of its steps, whatever its name.
struct LeftAlone {
  std::string name;
  std::string why;  // "no checkpoint", "not named as the steps are"
};

struct PrunePlan {
  // Committed steps, sorted by step: checkpoints by what is in them, and named
  // as the steps of this root are. Nothing else is ever taken away.
  std::vector<PruneRow> rows;
  std::vector<LeftAlone> left_alone;  // sorted by name
  // Bytes that the removal frees; a file that a remaining step shares by hard
  // links is not counted.
  uint64_t freed_bytes = 0;
};

// Changes nothing. The newest committed step is always kept, under the label
// "the newest", and so is what a view or a delta in the root that stays refers
// to, under "the view NAME" or "the delta NAME". NotFound when there is no
// root; FailedPrecondition when no format was given and as many steps are named
// one way as another.
Result<PrunePlan> PlanPrune(const std::string& root,
                            const PruneOptions& options);
// Moves into the trash the steps that the plan does not keep, that still are
// checkpoints and that nothing has come to refer to since, and returns their
// names. First checks that a step that the plan
// keeps is still there: FailedPrecondition otherwise.
Result<std::vector<std::string>> Prune(const std::string& root,
                                       const PrunePlan& plan);

// --- Disk usage ---

// Files of one kind in one item of one step.
struct UsageRow {
  std::string step;  // name of the directory
  std::string item;  // "" for files of the step itself
  std::string kind;  // "data", "manifest", "metadata", "checksums"
  uint64_t file_count = 0;
  uint64_t bytes = 0;         // counted here
  uint64_t shared_bytes = 0;  // hard links to what an earlier row has counted
};

struct DiskUsage {
  std::vector<UsageRow> rows;  // by step, item, kind
  uint64_t temporary_bytes = 0;
  uint64_t trash_bytes = 0;
  uint64_t other_bytes = 0;  // everything else in the root
  uint64_t total_bytes = 0;  // each file once
  uint64_t shared_bytes = 0;
};

Result<DiskUsage> MeasureDiskUsage(const std::string& root);

}  // namespace HOLDFAST_EXPORT
