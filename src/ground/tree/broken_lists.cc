#include "ground/tree/broken_lists.h"

#include <algorithm>
#include <map>
#include <set>

namespace holdfast {
namespace {

struct Children {
  std::set<std::string> keys;
  bool has_index = false;
  bool has_name = false;

  bool IsBrokenList() const {
    if (!has_index || has_name) return has_index;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (!keys.contains(std::to_string(i))) return true;
    }
    return false;
  }
};

// Calls fn(path of the parent, key, kind) for each key of each leaf.
template <typename Fn>
void ForEachKey(std::span<const LeafKeys> leaves, const Fn& fn) {
  for (const LeafKeys& leaf : leaves) {
    std::vector<std::string> parent;
    for (size_t i = 0; i < leaf.keys->size(); ++i) {
      fn(parent, (*leaf.keys)[i], (*leaf.kinds)[i]);
      parent.push_back((*leaf.keys)[i]);
    }
  }
}

}  // namespace

std::vector<std::vector<std::string>> ReplaceBrokenLists(
    std::span<const LeafKeys> leaves) {
  std::vector<std::vector<std::string>> broken;
  const bool has_lists =
      std::any_of(leaves.begin(), leaves.end(), [](const LeafKeys& leaf) {
        return std::find(leaf.kinds->begin(), leaf.kinds->end(),
                         KeyKind::kIndex) != leaf.kinds->end();
      });
  if (!has_lists) return broken;
  std::map<std::vector<std::string>, Children> by_parent;
  ForEachKey(leaves, [&](const auto& parent, const auto& key, KeyKind kind) {
    Children& children = by_parent[parent];
    children.keys.insert(key);
    (kind == KeyKind::kIndex ? children.has_index : children.has_name) = true;
  });
  for (const auto& [parent, children] : by_parent) {
    if (children.IsBrokenList()) broken.push_back(parent);
  }
  if (broken.empty()) return broken;
  ForEachKey(leaves, [&](const auto& parent, const auto&, KeyKind& kind) {
    if (std::binary_search(broken.begin(), broken.end(), parent)) {
      kind = KeyKind::kName;
    }
  });
  return broken;
}

}  // namespace holdfast
