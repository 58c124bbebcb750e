// Determines what a path is: a manager root, a step, a composite of items, one
// item, a bare OCDBT database or bare zarr arrays. Also finds its items.
//
// The answer depends only on names (see doc/architecture.md, "Telling a
// checkpoint apart"); no tensor metadata is read.
// Thread-safety: pure functions of the file system.
// Errors: NotFound (the path does not exist or is not a checkpoint; says what
// was looked for), FailedPrecondition (temporary directory), InvalidArgument.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/check/checked_files.h"
#include "holdfast/checkpoint.h"
#include "stores/place/place.h"
#include "stores/storage/store.h"

namespace holdfast {

enum class ItemKind : uint8_t {
  kPytree,   // `_METADATA`, or an older Orbax item without it
  kOcdbt,    // a bare database of zarr arrays
  kZarr,     // bare zarr arrays in directories, or one array
  kJson,     // one JSON document
  kUnknown,  // a directory that holdfast has no reader for
};

// The names that Orbax's handlers give the document of a JSON item.
inline constexpr std::string_view kJsonItemFiles[] = {"metadata", "data.json",
                                                      "metrics"};

struct ItemPlace {
  std::string name;  // "" when the checkpoint is the item
  Place directory;   // absolute
  ItemKind kind = ItemKind::kUnknown;
  std::string json_file;  // kJson: its file name
  // The caller named one of the arrays' own files, to read the arrays as
  // stored.
  bool is_named_by_file = false;
  // The store of the item's files; null means the files below `directory`.
  std::shared_ptr<Store> store;
  // The same files with their checksums, if these are already known.
  std::shared_ptr<const CheckedFiles> checked;
};

struct FoundCheckpoint {
  CheckpointInfo info;  // format, path, step, items, timestamps filled in
  Place directory;      // of the checkpoint
  std::vector<ItemPlace> items;
  // Directories that no longer hold an item, only its checksums.
  std::vector<ItemPlace> emptied_items;
  // DataLoss when this is a checkpoint of items and an item that it lists is
  // missing.
  Status damage;
  // The text of `_CHECKPOINT_METADATA`; absent when it is missing.
  std::optional<Bytes> metadata_text;
};

// Returns an identifier of a directory on disk, which distinguishes it from a
// directory that gets the same name later. Returns "" for a missing directory,
// and in object stores, where versions serve this purpose.
std::string PlaceId(const Place& place);
// Returns Unavailable when `place` no longer leads to the directory identified
// by `id`.
Status CheckSamePlace(const Place& place, const std::string& id);

// Finds the checkpoint at `place`, which may be any path.
Result<FoundCheckpoint> FindCheckpoint(const Place& place,
                                       const OpenOptions& options);

// Returns DataLoss for a missing item that `_CHECKPOINT_METADATA` in
// `directory` lists.
Status MissingItemError(const std::string& directory, const std::string& name);

// Returns DataLoss for the newest step of a root, which was committed but
// cannot be read because of `why`. The message names `whole_step`, the newest
// complete step among the others.
Status DamagedStepError(const std::string& root, int64_t damaged_step,
                        const Status& why, std::optional<int64_t> whole_step);
// Returns NotFound if `names`, the names in `root`, show that it is a
// checkpoint rather than a root. Some of a checkpoint's own files are named
// like steps ("ocdbt.process_0").
Status CheckIsNoCheckpoint(const Place& root,
                           const std::vector<std::string>& names);
// Returns the description that ListSteps gives of the step at `place`.
StepInfo DescribeStepAt(const Place& place,
                        CommitMode mode = CommitMode::kAuto);
// Returns true when a finished step was committed and has lost files since.
// `status` is the result of FindCheckpoint for it.
bool IsDamagedStep(const Place& directory, const Status& status);

// Returns true when `place` is a directory of steps rather than a checkpoint,
// and at least one step is, or claims to have been, a checkpoint.
Result<bool> IsManagerRoot(const Place& place);

// Returns 7 for "7" and "step_00000007"; nullopt for a name without a number.
std::optional<int64_t> StepOfName(std::string_view name);

// Classifies only this directory, which is kUnknown if it is not an item.
Result<ItemPlace> ClassifyItem(const Place& directory,
                               const OpenOptions& options = {});

}  // namespace holdfast
