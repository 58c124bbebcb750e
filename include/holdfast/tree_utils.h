// Functions on complete trees: flattening and unflattening, merging, trimming,
// comparing. They have the names and rules of orbax.checkpoint.tree and
// transform_utils.
//
//   FlatDict flat = *ToFlatDict(tree);             // {("a", "b"), leaf}, ...
//   Tree nested = *FromFlatDict(flat);             // dicts
//   Tree again = *FromFlatDict(flat, &tree);       // the tree's containers
//
// Thread-safety: pure functions; callbacks run on the caller's thread.
// Ownership: results own their nodes and share the memory of array leaves.
// Errors: InvalidArgument where Orbax's functions raise ValueError, TypeError
// or AssertionError, and NotFound where they raise KeyError. Messages are
// Orbax's, except where Orbax mentions Python classes. All functions refuse
// duplicate keys, text that is not UTF-8, and more than kTreeDepthMax levels.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/status.h"
#include "holdfast/tree.h"

namespace holdfast HOLDFAST_EXPORT {

// Keys from the root: dict keys, field names, decimal indices.
using TreePath = std::vector<std::string>;
// Leaves by path.
using FlatDict = std::vector<std::pair<TreePath, Tree>>;

// Returns the keys joined with `sep`.
std::string StrKeypath(const TreePath& keypath, std::string_view sep = ".");

// Returns the leaves in JAX's order. None and empty containers count as leaves
// only with `keep_empty_nodes`.
Result<FlatDict> ToFlatDict(const Tree& tree, bool keep_empty_nodes = false);

// Inverts ToFlatDict. With a target, returns the target's containers with the
// value from `flat_dict` at each leaf; NotFound "('a', 'b')" if `flat_dict`
// lacks a path. Without a target, returns dicts in the order of the paths.
Result<Tree> FromFlatDict(const FlatDict& flat_dict,
                          const Tree* target = nullptr);

// Returns the tree with only dicts and lists, as `_METADATA` stores it: tuples
// become lists, and named tuples become dicts. InvalidArgument if the tree has
// no leaves.
Result<Tree> SerializeTree(const Tree& tree, bool keep_empty_nodes = false);

// Returns the target's containers with the values of a serialized tree.
// NotFound if `serialized` lacks a path of the target. With `keep_empty_nodes`,
// also uses the values at the target's None leaves and empty containers.
Result<Tree> DeserializeTree(const Tree& serialized, const Tree& target,
                             bool keep_empty_nodes = false);

// Returns the tree with each leaf replaced by its parameter name (keys joined
// with ".").
Result<Tree> GetParamNames(const Tree& tree, bool include_empty_nodes = true);

// Returns one tree with the leaves of all `trees`. If several trees have a
// leaf, the last one's is used. Empty containers are left out. `target` is as
// in FromFlatDict.
Result<Tree> MergeTrees(const std::vector<Tree>& trees,
                        const Tree* target = nullptr);
// Returns the last tree's leaves at the paths that all trees have.
Result<Tree> IntersectTrees(const std::vector<Tree>& trees,
                            const Tree* target = nullptr);

// A place where two trees differ.
struct TreeDiff {
  TreePath path;
  // Null if that tree has nothing at the path.
  const Tree* lhs = nullptr;
  const Tree* rhs = nullptr;
  // "opt[0].mu"; empty for the root.
  std::string place;
  // The text that FormatTreeDifference prints: the value; the class, if the two
  // kinds differ; the class and length, if two sequences differ in length; or
  // "MISSING".
  std::string lhs_text;
  std::string rhs_text;
};

// Returns where `a` and `b` differ, in JAX's order; empty if they are equal.
// Leaves that both trees have are compared by `leaves_equal`, or by their types
// if `leaves_equal` is empty. The result refers to the trees.
Result<std::vector<TreeDiff>> TreeDifference(
    const Tree& a, const Tree& b,
    const std::function<bool(const Tree&, const Tree&)>& leaves_equal = {});

// Returns the differences as Orbax prints them, separated by empty lines:
//
//   params.w:
//       - Source: ...
//       - Target: MISSING
//
// Only a difference between the roots, whose heading is "Mismatch:", has the
// given labels instead of Source and Target.
std::string FormatTreeDifference(const std::vector<TreeDiff>& differences,
                                 std::string_view source_label = "Source",
                                 std::string_view target_label = "Target");

// Options of TreeTrim.
struct TreeTrimOptions {
  // If false, a part that `structure` lacks becomes a Placeholder.
  bool strict = true;
  // A dict may match a sequence.
  bool allow_sequence_mapping_alignment = false;
  // Called for every part that is left out; may be empty.
  std::function<void(const TreePath& path, const Tree& part)>
      trimmed_structure_callback;
};
// Returns `structure` without the parts that `template_tree` lacks, in the
// template's containers. Lists match tuples. InvalidArgument for a key or
// element that `structure` lacks, and for containers of different kinds.
Result<Tree> TreeTrim(const Tree& template_tree, const Tree& structure,
                      const TreeTrimOptions& options = {});

}  // namespace holdfast
