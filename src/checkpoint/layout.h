// What a path is: a manager root, a step, a composite of items, one item, a
// bare OCDBT database or bare zarr arrays; and where its items lie.
//
// The answer follows from names alone (see doc/architecture.md, "Telling a
// checkpoint apart"); no tensor metadata is read.
// Thread-safety: pure functions of the file system.
// Errors: NotFound (nothing there, or no checkpoint: says what was looked
// for), FailedPrecondition (temporary directory), InvalidArgument.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "holdfast/checkpoint.h"
#include "storage/store.h"
#include "storage/url_path.h"

namespace holdfast {

enum class ItemKind : uint8_t {
  kPytree,   // `_METADATA`, or an older Orbax item without it
  kOcdbt,    // a bare database of zarr arrays
  kZarr,     // bare zarr arrays in directories, or one array
  kJson,     // one JSON document
  kUnknown,  // a directory that holdfast has no reader for
};

struct ItemPlace {
  std::string name;       // "" when the checkpoint is the item
  std::string directory;  // absolute
  ItemKind kind = ItemKind::kUnknown;
  std::string json_file;  // kJson: its file name
  // What holds the item's files; null: the files below `directory`.
  std::shared_ptr<Store> store;
};

struct Place {
  CheckpointInfo info;  // format, path, step, items, timestamps filled in
  std::vector<ItemPlace> items;
};

// REQUIRES: nothing; any path may be asked for.
Result<Place> FindPlace(const std::string& path, const OpenOptions& options);

// "7", "step_00000007" -> 7; nullopt for other names.
std::optional<int64_t> StepOfName(std::string_view name);

// The kind of one directory on its own; kUnknown when it is none.
Result<ItemPlace> ClassifyItem(const std::string& directory,
                               const OpenOptions& options = {});

}  // namespace holdfast
