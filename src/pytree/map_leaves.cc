#include "pytree/map_leaves.h"

#include <utility>

#include "tree/rebuild.h"

namespace holdfast {
namespace {

void AddChild(Tree& container, const std::string& key, Tree child) {
  if (container.is_sequence()) {
    container.Append(std::move(child));
  } else {
    container.Add(key, std::move(child));
  }
}

class Mapper {
 public:
  explicit Mapper(const LeafFn& fn) : fn_(fn) {}

  Tree Map(const Tree& node) {
    if (node.size() == 0) return fn_(path_, node);
    Tree mapped = EmptyLike(node);
    for (size_t i = 0; i < node.size(); ++i) {
      const bool is_sequence = node.is_sequence();
      path_.push_back(
          {is_sequence ? std::to_string(i) : node.keys()[i], is_sequence});
      Tree child = Map(node.children()[i]);
      AddChild(mapped, path_.back().key, std::move(child));
      path_.pop_back();
    }
    return mapped;
  }

 private:
  const LeafFn& fn_;
  KeyPath path_;
};

}  // namespace

Tree MapLeaves(const Tree& tree, const LeafFn& fn) {
  return Mapper(fn).Map(tree);
}

}  // namespace holdfast
