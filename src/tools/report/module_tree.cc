#include "holdfast/tools/module_tree.h"

#include <map>
#include <utility>

namespace holdfast {
namespace {

constexpr size_t kDepthMax = 64;

// Returns a leaf's keys. Keys beyond the page's maximum depth are joined.
std::vector<std::string> KeysOf(const LeafInfo& leaf) {
  std::vector<std::string> keys = leaf.key;
  while (keys.size() > kDepthMax) {
    const std::string last = std::move(keys.back());
    keys.pop_back();
    keys.back() += "." + last;
  }
  return keys;
}

class TreeMaker {
 public:
  ModuleTree Make(const std::vector<LeafInfo>& leaves) {
    tree_.nodes.emplace_back();
    for (size_t i = 0; i < leaves.size(); ++i) AddLeaf(leaves[i], i);
    for (size_t i = tree_.nodes.size(); i-- > 1;) AddUp(tree_.nodes[i]);
    return std::move(tree_);
  }

 private:
  size_t AddNode(size_t parent, const std::string& key) {
    const size_t node = tree_.nodes.size();
    tree_.nodes.push_back({.key = key, .parent = parent});
    tree_.nodes[parent].children.push_back(node);
    return node;
  }

  size_t ModuleOf(size_t parent, const std::string& key) {
    const auto [found, is_new] = modules_.try_emplace({parent, key}, 0);
    if (is_new) found->second = AddNode(parent, key);
    return found->second;
  }

  void AddLeaf(const LeafInfo& leaf, size_t number) {
    const std::vector<std::string> keys = KeysOf(leaf);
    size_t parent = 0;
    for (size_t i = 0; i + 1 < keys.size(); ++i) {
      parent = ModuleOf(parent, keys[i]);
    }
    const size_t added = AddNode(parent, keys.empty() ? "" : keys.back());
    ModuleNode& node = tree_.nodes[added];
    node.leaf = number;
    node.leaf_count = 1;
    if (leaf.kind == ValueKind::kArray) {
      node.parameter_count = static_cast<uint64_t>(ElementCount(leaf.shape));
    }
    node.stored_bytes = leaf.stored_bytes;
    node.decoded_bytes = leaf.decoded_bytes;
    node.chunk_count = leaf.chunk_count;
  }

  void AddUp(const ModuleNode& node) {
    ModuleNode& parent = tree_.nodes[node.parent];
    parent.leaf_count += node.leaf_count;
    parent.parameter_count += node.parameter_count;
    parent.stored_bytes += node.stored_bytes;
    parent.decoded_bytes += node.decoded_bytes;
    parent.chunk_count += node.chunk_count;
  }

  ModuleTree tree_;
  std::map<std::pair<size_t, std::string>, size_t> modules_;
};

}  // namespace

std::string ModuleTree::NameOf(size_t node) const {
  std::string name;
  for (; node != 0; node = nodes[node].parent) {
    name = nodes[node].key + (name.empty() ? "" : "." + name);
  }
  return name;
}

ModuleTree MakeModuleTree(const std::vector<LeafInfo>& leaves) {
  return TreeMaker().Make(leaves);
}

}  // namespace holdfast
