// The same containers with other leaves.
//
// Thread-safety: pure functions of their arguments. Errors: none.
#pragma once

#include <functional>

#include "holdfast/tree.h"
#include "tree/key_path.h"

namespace holdfast {

// Gets leaves and empty containers; the path lasts for the call.
using LeafFn = std::function<Tree(const KeyPath& path, const Tree& leaf)>;

// `tree` with fn(leaf) for each leaf and empty container, called in the order
// of the tree itself. REQUIRES: at most kTreeDepthMax levels.
Tree MapLeaves(const Tree& tree, const LeafFn& fn);

}  // namespace holdfast
