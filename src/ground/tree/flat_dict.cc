// ToFlatDict and related functions of holdfast/tree_utils.h.

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "ground/base/status_macros.h"
#include "ground/tree/flatten.h"
#include "ground/tree/python_repr.h"
#include "ground/tree/rebuild.h"
#include "holdfast/tree_utils.h"

namespace holdfast {
namespace {

bool IsEmptyNode(const Tree& node) {
  return node.is_none() || node.is_empty_container();
}

// FromFlatDict builds its dicts from these, because it must find children by
// key.
struct DictNode {
  std::vector<DictNode> children;
  std::vector<std::string> keys;  // of `children`
  std::unordered_map<std::string, size_t> index_of_key;
  const Tree* leaf = nullptr;

  DictNode& Child(const std::string& key) {
    const auto [at, is_new] = index_of_key.emplace(key, children.size());
    if (is_new) {
      children.emplace_back();
      keys.push_back(key);
    }
    return children[at->second];
  }
  Tree ToTree() const {
    if (leaf != nullptr) return *leaf;
    Tree dict = Tree::Dict();
    for (size_t i = 0; i < children.size(); ++i) {
      dict.Add(keys[i], children[i].ToTree());
    }
    return dict;
  }
};

std::string PathRepr(const TreePath& path) {
  return PythonTupleText(path, AppendPythonRepr);
}

Result<Tree> NestedDicts(const FlatDict& flat_dict) {
  DictNode root;
  for (const auto& [path, leaf] : flat_dict) {
    if (path.empty()) {
      if (flat_dict.size() == 1) return leaf;
      std::string paths;
      for (const auto& [other, ignored] : flat_dict) {
        paths += (paths.empty() ? "" : ", ") + PathRepr(other);
      }
      return InvalidArgumentError(
          "Empty keypath () must be the only key; got [" + paths + "].");
    }
    if (path.size() > kTreeDepthMax) {
      return InvalidArgumentError("from_flat_dict: path is too deep (got " +
                                  std::to_string(path.size()) + " keys)");
    }
    DictNode* node = &root;
    for (const std::string& key : path) {
      node = &node->Child(key);
      if (node->leaf == nullptr) continue;
      return InvalidArgumentError("from_flat_dict: " + PathRepr(path) +
                                  " and another path meet at a leaf");
    }
    if (!node->children.empty()) {
      return InvalidArgumentError("from_flat_dict: " + PathRepr(path) +
                                  " is a leaf and leads to others");
    }
    node->leaf = &leaf;
  }
  return root.ToTree();
}

Result<std::vector<FlatLeaf>> Leaves(const Tree& tree, bool keep_empty_nodes) {
  HF_ASSIGN_OR_RETURN(std::vector<FlatLeaf> leaves, Flatten(tree));
  if (!keep_empty_nodes) {
    std::erase_if(leaves,
                  [](const FlatLeaf& leaf) { return IsEmptyNode(*leaf.leaf); });
  }
  return leaves;
}

// Later values of a path win; paths stay in the order of first appearance.
class OrderedLeaves {
 public:
  Status Add(const Tree& tree) {
    HF_ASSIGN_OR_RETURN(const std::vector<FlatLeaf> leaves,
                        Leaves(tree, false));
    for (const FlatLeaf& leaf : leaves) {
      TreePath path = PathOf(leaf.path);
      const auto [at, is_new] = index_of_path_.emplace(path, flat_.size());
      if (is_new) {
        flat_.emplace_back(std::move(path), *leaf.leaf);
      } else {
        flat_[at->second].second = *leaf.leaf;
      }
    }
    return Status();
  }
  bool Has(const TreePath& path) const { return index_of_path_.contains(path); }
  FlatDict Take() { return std::move(flat_); }

 private:
  FlatDict flat_;
  std::map<TreePath, size_t> index_of_path_;
};

// Puts the values of a serialized tree at the leaves of a target.
class Deserializer {
 public:
  explicit Deserializer(bool keep_empty_nodes)
      : keep_empty_nodes_(keep_empty_nodes) {}

  Result<Tree> Visit(const Tree& serialized, const Tree& target) {
    if (target.size() == 0) {
      return IsEmptyNode(target) && !keep_empty_nodes_ ? target : serialized;
    }
    std::unordered_map<std::string_view, const Tree*> child_of_key;
    for (size_t i = 0; i < serialized.keys().size(); ++i) {
      child_of_key.emplace(serialized.keys()[i], &serialized.children()[i]);
    }
    std::vector<Tree> values(target.size());
    for (const size_t i : SortedChildren(target)) {
      HF_ASSIGN_OR_RETURN(
          const Tree* const child,
          Find(serialized, child_of_key, ElementOf(target, i).key));
      HF_ASSIGN_OR_RETURN(values[i], Visit(*child, target.children()[i]));
    }
    return WithChildren(target, std::move(values));
  }

 private:
  static Result<const Tree*> Find(
      const Tree& node,
      const std::unordered_map<std::string_view, const Tree*>& child_of_key,
      const std::string& key) {
    if (node.is_sequence()) {
      const Tree* const child = node.Find(key);
      if (child != nullptr) return child;
      return NotFoundError("list index out of range (got " + key + " of " +
                           std::to_string(node.size()) + ")");
    }
    const auto child = child_of_key.find(key);
    if (child != child_of_key.end()) return child->second;
    std::string repr;
    AppendPythonRepr(repr, key);
    return NotFoundError(repr);
  }

  const bool keep_empty_nodes_;
};

}  // namespace

std::string StrKeypath(const TreePath& keypath, std::string_view sep) {
  std::string text;
  for (size_t i = 0; i < keypath.size(); ++i) {
    if (i > 0) text += sep;
    text += keypath[i];
  }
  return text;
}

Result<FlatDict> ToFlatDict(const Tree& tree, bool keep_empty_nodes) {
  HF_ASSIGN_OR_RETURN(const std::vector<FlatLeaf> leaves,
                      Leaves(tree, keep_empty_nodes));
  FlatDict flat;
  flat.reserve(leaves.size());
  for (const FlatLeaf& leaf : leaves) {
    flat.emplace_back(PathOf(leaf.path), *leaf.leaf);
  }
  return flat;
}

Result<Tree> FromFlatDict(const FlatDict& flat_dict, const Tree* target) {
  if (target == nullptr) return NestedDicts(flat_dict);
  std::map<TreePath, const Tree*> leaf_of_path;
  for (const auto& [path, leaf] : flat_dict) leaf_of_path[path] = &leaf;
  HF_ASSIGN_OR_RETURN(const std::vector<FlatLeaf> leaves,
                      Leaves(*target, false));
  std::unordered_map<const Tree*, Tree> values;
  for (const FlatLeaf& leaf : leaves) {
    const auto value = leaf_of_path.find(PathOf(leaf.path));
    if (value == leaf_of_path.end()) {
      return NotFoundError(KeyPathRepr(leaf.path));
    }
    values.emplace(leaf.leaf, *value->second);
  }
  return RebuildWith(*target, values);
}

Result<Tree> SerializeTree(const Tree& tree, bool keep_empty_nodes) {
  HF_ASSIGN_OR_RETURN(std::vector<FlatLeaf> leaves,
                      Leaves(tree, keep_empty_nodes));
  if (leaves.empty()) {
    return InvalidArgumentError(
        "Unable to uniquely reconstruct tree from empty flattened list "
        "(it could be {} or []).");
  }
  std::vector<UnflattenEntry> entries;
  entries.reserve(leaves.size());
  for (FlatLeaf& leaf : leaves) {
    entries.push_back({std::move(leaf.path), *leaf.leaf});
  }
  Result<Tree> serialized = Unflatten(std::move(entries));
  if (serialized.ok()) return serialized;
  return InvalidArgumentError(std::string(serialized.status().message()));
}

Result<Tree> DeserializeTree(const Tree& serialized, const Tree& target,
                             bool keep_empty_nodes) {
  HF_RETURN_IF_ERROR(Flatten(serialized).status());
  HF_RETURN_IF_ERROR(Flatten(target).status());
  return Deserializer(keep_empty_nodes).Visit(serialized, target);
}

Result<Tree> GetParamNames(const Tree& tree, bool include_empty_nodes) {
  HF_ASSIGN_OR_RETURN(const std::vector<FlatLeaf> leaves,
                      Leaves(tree, include_empty_nodes));
  std::unordered_map<const Tree*, Tree> names;
  for (const FlatLeaf& leaf : leaves) {
    names.emplace(leaf.leaf, Tree(ParamName(leaf.path)));
  }
  return RebuildWith(tree, names);
}

Result<Tree> MergeTrees(const std::vector<Tree>& trees, const Tree* target) {
  OrderedLeaves merged;
  for (const Tree& tree : trees) HF_RETURN_IF_ERROR(merged.Add(tree));
  return FromFlatDict(merged.Take(), target);
}

Result<Tree> IntersectTrees(const std::vector<Tree>& trees,
                            const Tree* target) {
  if (trees.empty()) {
    return InvalidArgumentError("intersect_trees: needs at least one tree");
  }
  std::vector<OrderedLeaves> others(trees.size() - 1);
  for (size_t i = 0; i < others.size(); ++i) {
    HF_RETURN_IF_ERROR(others[i].Add(trees[i]));
  }
  HF_ASSIGN_OR_RETURN(FlatDict kept, ToFlatDict(trees.back()));
  std::erase_if(kept, [&](const auto& entry) {
    return !std::all_of(
        others.begin(), others.end(),
        [&](const OrderedLeaves& other) { return other.Has(entry.first); });
  });
  return FromFlatDict(kept, target);
}

}  // namespace holdfast
