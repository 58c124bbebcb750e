// The order in which a tree is copied: a value, computed only from names.
//
// A unit is a topmost directory that holds a checkpoint; it is published as a
// whole. Its files are copied in three waves: the files that its heads point
// to, the heads (metadata, manifests, lists of files), and last the files that
// make readers take it for finished. All other files are loose; those that
// point at units (`latest_checkpointed_iteration.txt`) are copied last.
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

// `files` are relative names, sorted; `place_name` is the name of the place
// itself ("7").
TreeCopyPlan PlanTreeCopy(const std::vector<ListedFile>& files,
                          std::string_view place_name);

// True when only a checkpoint's directory holds a file of this name.
bool IsUnitSign(std::string_view file_name);

// True for leases and journals, which are not part of the directory that holds
// them.
bool IsScaffold(std::string_view path);

// Appended to the name of a directory while a copy writes it.
inline constexpr std::string_view kCopySuffix = ".holdfast-copy-tmp";

}  // namespace holdfast
