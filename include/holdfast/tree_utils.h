// Functions on whole trees: flat forms and back, merging, cutting, comparing.
// The names and rules of orbax.checkpoint.tree and transform_utils.
//
//   FlatDict flat = *ToFlatDict(tree);             // {("a", "b"), leaf}, ...
//   Tree nested = *FromFlatDict(flat);             // dicts
//   Tree again = *FromFlatDict(flat, &tree);       // the tree's containers
//
// Thread-safety: pure functions; callbacks run on the caller's thread.
// Ownership: results own their nodes and share the memory of array leaves.
// Errors: InvalidArgument where the real functions raise ValueError, TypeError
// or AssertionError, NotFound where they raise KeyError, with their texts as
// far as these speak of keys and not of Python's classes. All refuse what
// Flatten refuses: two equal keys, text that is not UTF-8, more than
// kTreeDepthMax levels.
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

// ("a", "0") as a name: the keys joined with `sep`.
std::string StrKeypath(const TreePath& keypath, std::string_view sep = ".");

// The leaves in JAX's order. None and empty containers count as leaves only
// with `keep_empty_nodes`.
Result<FlatDict> ToFlatDict(const Tree& tree, bool keep_empty_nodes = false);

// The reverse. With a target: its containers, and at each of its leaves the
// value of that path; NotFound "('a', 'b')" where `flat_dict` has none. Null:
// dicts in the order of the paths.
Result<Tree> FromFlatDict(const FlatDict& flat_dict,
                          const Tree* target = nullptr);

// Dicts and lists only, as `_METADATA` keeps a tree: tuples become lists,
// named tuples dicts. InvalidArgument: no leaf at all.
Result<Tree> SerializeTree(const Tree& tree, bool keep_empty_nodes = false);

// `target`'s containers with the values of a serialized tree. NotFound where
// `serialized` lacks a path of the target. With `keep_empty_nodes` values at
// None and empty containers of the target are taken, too.
Result<Tree> DeserializeTree(const Tree& serialized, const Tree& target,
                             bool keep_empty_nodes = false);

// The tree with each leaf's parameter name (keys joined with ".") in its place.
Result<Tree> GetParamNames(const Tree& tree, bool include_empty_nodes = true);

// One tree with the leaves of all; later trees win. Empty containers are left
// out. `target` as in FromFlatDict.
Result<Tree> MergeTrees(const std::vector<Tree>& trees,
                        const Tree* target = nullptr);
// The last tree's leaves at the paths that all trees have.
Result<Tree> IntersectTrees(const std::vector<Tree>& trees,
                            const Tree* target = nullptr);

// A place where two trees differ.
struct TreeDiff {
  TreePath path;
  // Null: nothing stands there in that tree.
  const Tree* lhs = nullptr;
  const Tree* rhs = nullptr;
  // "opt[0].mu"; empty for the root.
  std::string place;
  // The text that FormatTreeDifference prints: the value, the class where the
  // two are of different kinds, class and length where two sequences differ in
  // length, or "MISSING".
  std::string lhs_text;
  std::string rhs_text;
};

// Where `a` and `b` differ, in JAX's order; empty: nowhere. Leaves that stand
// in both are compared by `leaves_equal`; empty: by their types. Borrows the
// trees.
Result<std::vector<TreeDiff>> TreeDifference(
    const Tree& a, const Tree& b,
    const std::function<bool(const Tree&, const Tree&)>& leaves_equal = {});

// As Orbax prints it, parted by empty lines: "params.w:\n    - Source: ...\n
//    - Target: MISSING". A difference of the roots is headed "Mismatch:" and
// has the labels given.
std::string FormatTreeDifference(const std::vector<TreeDiff>& differences,
                                 std::string_view source_label = "Source",
                                 std::string_view target_label = "Target");

// `structure` without what `template_tree` does not have, in the template's
// containers. InvalidArgument: a key or an element that `structure` lacks, or
// containers of different kinds. Lists and tuples match; a dict matches a
// sequence only with `allow_sequence_mapping_alignment`.
// `trimmed_structure_callback` is told of every part that is left out. Not
// `strict`: what `structure` lacks becomes a Placeholder.
struct TreeTrimOptions {
  bool strict = true;
  bool allow_sequence_mapping_alignment = false;
  std::function<void(const TreePath& path, const Tree& part)>
      trimmed_structure_callback;
};
Result<Tree> TreeTrim(const Tree& template_tree, const Tree& structure,
                      const TreeTrimOptions& options = {});

}  // namespace holdfast
