// ModuleTree: the leaves of a checkpoint grouped by module, with the sums for
// each module.
//
//   const holdfast::ModuleTree tree = holdfast::MakeModuleTree(leaves);
//   for (const size_t child : tree.nodes[0].children) ...
//
// Thread-safety: a pure function of values. Units: bytes, elements.
// Errors: none. The last keys of leaves deeper than 64 modules are joined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/export.h"

namespace holdfast HOLDFAST_EXPORT {

// A module or a leaf; a key that is both has one node for each.
struct ModuleNode {
  std::string key;               // "" at the root
  size_t parent = 0;             // a smaller index; the root is its own parent
  std::vector<size_t> children;  // in the order of the leaves
  std::optional<size_t> leaf;    // index into leaves()
  // For a module, sums over all leaves in it, at any depth; for a leaf, its own
  // values.
  uint64_t leaf_count = 0;
  uint64_t parameter_count = 0;  // elements of arrays
  uint64_t stored_bytes = 0;
  uint64_t decoded_bytes = 0;
  uint64_t chunk_count = 0;
};

struct ModuleTree {
  std::vector<ModuleNode> nodes;  // the first is the root

  // Returns the keys from the root down, joined with '.'.
  std::string NameOf(size_t node) const;
};

ModuleTree MakeModuleTree(const std::vector<LeafInfo>& leaves);

}  // namespace holdfast
