// Rebuilds containers with other leaves, and describes trees in messages as
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

// Returns a container like `node` that holds `children`. REQUIRES: `node` is a
// container with as many children.
Tree WithChildren(const Tree& node, std::vector<Tree> children);

// Receives leaves and empty containers; the path is valid only during the call.
using LeafFn = std::function<Tree(const KeyPath& path, const Tree& leaf)>;

// Returns `tree` with each leaf and empty container replaced by the result of
// `fn`, which is called in the order of the tree itself. REQUIRES: at most
// kTreeDepthMax levels.
Tree MapLeaves(const Tree& tree, const LeafFn& fn);
// Returns `tree` with leaves and empty containers replaced by the entries of
// `values` for their node addresses.
Tree RebuildWith(const Tree& tree,
                 std::unordered_map<const Tree*, Tree>& values);

TreePath PathOf(const KeyPath& path);
// Returns the path element that leads to a node's i-th child. REQUIRES: i <
// node.size().
KeyElement ElementOf(const Tree& node, size_t i);
// Like KeyPathRepr, but prints indices and integers as numbers: "('a', 0)".
std::string TreePathRepr(const KeyPath& path);
// Returns "<class 'dict'>" and so on.
std::string PythonClassText(const Tree& node);
// Returns short forms of values: 7, 'text', {'a': 1}, "float32[2,3]" for
// arrays.
std::string PythonValueText(const Tree& node);

// Returns an entry's repr: "ValueMetadataEntry(value_type='scalar',
// skip_deserialize=False, write_shape=None)".
std::string PythonEntryText(const ValueMetadataEntry& entry);

// Returns the indices of a node's children in JAX's order: dicts by key.
std::vector<size_t> SortedChildren(const Tree& node);

// Returns "bool", "int", "float" or "complex". REQUIRES: scalar.is_python.
std::string_view PythonNumberClass(const Scalar& scalar);

}  // namespace holdfast
