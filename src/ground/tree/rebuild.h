// The same containers with other leaves, and texts that speak of trees as
// Python does.
//
// Thread-safety: pure functions. Ownership: results own their nodes.
// Errors: none.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ground/tree/key_path.h"
#include "holdfast/pytree_metadata.h"
#include "holdfast/tree.h"
#include "holdfast/tree_utils.h"

namespace holdfast {

// A container like `node`. REQUIRES: a container, and a child for each of its
// own.
Tree WithChildren(const Tree& node, std::vector<Tree> children);

// Gets leaves and empty containers; the path lasts for the call.
using LeafFn = std::function<Tree(const KeyPath& path, const Tree& leaf)>;

// `tree` with fn(leaf) for each leaf and empty container, called in the order
// of the tree itself. REQUIRES: at most kTreeDepthMax levels.
Tree MapLeaves(const Tree& tree, const LeafFn& fn);
// `tree` with its leaves and empty containers replaced where `values`, by the
// node's address, has something.
Tree RebuildWith(const Tree& tree,
                 std::unordered_map<const Tree*, Tree>& values);

TreePath PathOf(const KeyPath& path);
// The element that leads to a node's child. REQUIRES: i < node.size().
KeyElement ElementOf(const Tree& node, size_t i);
// "('a', 0)": as KeyPathRepr, but indices and integers are numbers.
std::string TreePathRepr(const KeyPath& path);
// "<class 'dict'>" and so on.
std::string PythonClassText(const Tree& node);
// Short forms of values: 7, 'text', {'a': 1}, "float32[2,3]" for arrays.
std::string PythonValueText(const Tree& node);

// "ValueMetadataEntry(value_type='scalar', skip_deserialize=False,
// write_shape=None)"; objects of that type are written so.
std::string PythonEntryText(const ValueMetadataEntry& entry);

// The indices of a node's children in JAX's order: dicts by key.
std::vector<size_t> SortedChildren(const Tree& node);

// "bool", "int", "float" or "complex". REQUIRES: scalar.is_python.
std::string_view PythonNumberClass(const Scalar& scalar);

}  // namespace holdfast
