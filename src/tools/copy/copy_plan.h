// Plans the order in which a tree is copied, from names only.
//
// A unit is a directory that holds a checkpoint and is not inside another unit.
// It is published as a whole. Its files are copied in three waves: the data
// that the heads point to, the heads (metadata, manifests, lists of files), and
// last the files by which readers recognize a finished checkpoint.
// All files outside units are loose. Pointers, files that name a unit
// (`latest_checkpointed_iteration.txt`), are copied after everything else.
//
// Thread-safety: pure functions. Units: bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/commit/tree_listing.h"

namespace holdfast {

struct CopyUnit {
  std::string directory;  // relative to the place; "" means the place itself
  // True for Orbax checkpoints, which in an object store count only with
  // `commit_success.txt`.
  bool is_orbax = false;
  // The names of the files in each wave, relative to the directory.
  std::vector<std::string> data;
  std::vector<std::string> heads;
  std::vector<std::string> last;
};

struct TreeCopyPlan {
  std::vector<CopyUnit> units;     // by directory
  std::vector<std::string> loose;  // relative to the place
  std::vector<std::string> pointers;
  // Directories of unfinished saves and copies; not copied.
  std::vector<std::string> unfinished;
};

// Makes the plan. `files` must be sorted by their names, which are relative to
// the place. `place_name` is the name of the place itself ("7").
TreeCopyPlan PlanTreeCopy(const std::vector<ListedFile>& files,
                          std::string_view place_name);

// Returns true if only a checkpoint's directory has a file of this name.
bool IsUnitSign(std::string_view file_name);

// Returns true for leases and journals, which are not copied.
bool IsScaffold(std::string_view path);

// Appended to the name of a directory while a copy writes it.
inline constexpr std::string_view kCopySuffix = ".holdfast-copy-tmp";

}  // namespace holdfast
