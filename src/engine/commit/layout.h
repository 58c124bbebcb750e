// Tells what a path is: a manager root, a step, a composite of items, one item,
// a bare OCDBT database or bare zarr arrays; and where its items lie.
//
// The answer follows only from names (see doc/architecture.md, "Telling a
// checkpoint apart"); no tensor metadata is read.
// Thread-safety: pure functions of the file system.
// Errors: NotFound (nothing there, or no checkpoint: says what was looked
// for), FailedPrecondition (temporary directory), InvalidArgument.
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

// The document of a JSON item, by the names Orbax's handlers give it.
inline constexpr std::string_view kJsonItemFiles[] = {"metadata", "data.json",
                                                      "metrics"};

struct ItemPlace {
  std::string name;  // "" when the checkpoint is the item
  Place directory;   // absolute
  ItemKind kind = ItemKind::kUnknown;
  std::string json_file;  // kJson: its file name
  // The caller has named a file of the arrays, to have them as they are.
  bool is_named_by_file = false;
  // The store of the item's files; null: the files below `directory`.
  std::shared_ptr<Store> store;
  // The same with their checksums, where these are known already.
  std::shared_ptr<const CheckedFiles> checked;
};

struct FoundCheckpoint {
  CheckpointInfo info;  // format, path, step, items, timestamps filled in
  Place directory;      // where that is
  std::vector<ItemPlace> items;
  // Directories that hold no item any more, but the checksums of one.
  std::vector<ItemPlace> emptied_items;
  // DataLoss when it is a checkpoint of items, and one is not there that it
  // lists.
  Status damage;
  // The text of `_CHECKPOINT_METADATA`; absent when it is missing.
  std::optional<Bytes> metadata_text;
};

// Tells a directory on disk from another that gets its name later. "" for a
// missing one, and in object stores, whose versions tell.
std::string PlaceId(const Place& place);
// Unavailable when `path` leads to another directory than the one of `id`, or
// to none.
Status CheckSamePlace(const Place& place, const std::string& id);

// REQUIRES: nothing; any path may be asked for.
Result<FoundCheckpoint> FindCheckpoint(const Place& place,
                                       const OpenOptions& options);

// DataLoss for an item that `_CHECKPOINT_METADATA` in `directory` lists.
Status MissingItemError(const std::string& directory, const std::string& name);

// DataLoss in place of the newest step of a root, which was committed and
// cannot be read because of `why`; names the newest of the others that is
// whole.
Status DamagedStepError(const std::string& root, int64_t damaged_step,
                        const Status& why, std::optional<int64_t> whole_step);
// NotFound for a directory whose names are a checkpoint's: its own files are
// named like steps ("ocdbt.process_0").
Status CheckIsNoCheckpoint(const Place& root,
                           const std::vector<std::string>& names);
// The description that ListSteps gives of the step at `place`.
StepInfo DescribeStepAt(const Place& place,
                        CommitMode mode = CommitMode::kAuto);
// True when a finished step was committed and has lost something since.
// `status` is what FindCheckpoint says about it.
bool IsDamagedStep(const Place& directory, const Status& status);

// True when `path` is a directory of steps rather than a checkpoint, and at
// least one of them is a checkpoint, or says that it was one.
Result<bool> IsManagerRoot(const Place& place);

// "7", "step_00000007" -> 7; nullopt for other names.
std::optional<int64_t> StepOfName(std::string_view name);

// The kind of only one directory; kUnknown when it is not an item.
Result<ItemPlace> ClassifyItem(const Place& directory,
                               const OpenOptions& options = {});

}  // namespace holdfast
