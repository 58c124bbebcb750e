// ModuleTree: the leaves of a checkpoint by the modules that they lie in, with
// what each module adds up to.
//
//   const holdfast::ModuleTree tree = holdfast::MakeModuleTree(leaves);
//   for (const size_t child : tree.nodes[0].children) ...
//
// Thread-safety: a pure function of values. Units: bytes, elements.
// Errors: none. Leaves deeper than 64 modules have their last keys joined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/export.h"

namespace holdfast HOLDFAST_EXPORT {

// A module or a leaf; a key that is both has a node for each.
struct ModuleNode {
  std::string key;               // "" at the root
  size_t parent = 0;             // a smaller index; the root's is its own
  std::vector<size_t> children;  // in the order of the leaves
  std::optional<size_t> leaf;    // index into leaves()
  // Sums of a module's leaves, whatever depth they are at; a leaf's own.
  uint64_t leaf_count = 0;
  uint64_t parameter_count = 0;  // elements of arrays
  uint64_t stored_bytes = 0;
  uint64_t decoded_bytes = 0;
  uint64_t chunk_count = 0;
};

struct ModuleTree {
  std::vector<ModuleNode> nodes;  // the first is the root

  // Keys from the root down, joined with '.'.
  std::string NameOf(size_t node) const;
};

ModuleTree MakeModuleTree(const std::vector<LeafInfo>& leaves);

}  // namespace holdfast
