#include "holdfast/tree.h"

#include <cassert>
#include <cstring>

#include "ground/base/text.h"
#include "ground/tensor/box_index.h"

namespace holdfast {
namespace {

// Calls `visit(offset_bytes)` for every element in C order.
template <typename Visit>
bool EveryElement(const ConstArrayView& view, size_t dim, int64_t offset,
                  const Visit& visit) {
  if (dim == view.shape.size()) return visit(offset);
  for (int64_t i = 0; i < view.shape[dim]; ++i) {
    if (!EveryElement(view, dim + 1, offset + i * view.strides[dim], visit)) {
      return false;
    }
  }
  return true;
}

bool SameElements(const ConstArrayView& a, const ConstArrayView& b) {
  assert(a.dtype == b.dtype && a.shape == b.shape);
  const size_t element_bytes = DTypeBytes(a.dtype);
  if (IsContiguous(a) && IsContiguous(b)) {
    const size_t bytes = ElementCount(a.shape) * element_bytes;
    return bytes == 0 || std::memcmp(a.data, b.data, bytes) == 0;
  }
  std::vector<int64_t> offsets;
  EveryElement(a, 0, 0, [&](int64_t offset) {
    offsets.push_back(offset);
    return true;
  });
  size_t next = 0;
  return EveryElement(b, 0, 0, [&](int64_t offset) {
    return std::memcmp(a.data + offsets[next++], b.data + offset,
                       element_bytes) == 0;
  });
}

// Returns the shards of an array, or the array itself if it has none.
std::vector<ArrayShard> PartsOf(const Tree& leaf) {
  if (leaf.is_sharded()) return leaf.shards();
  return {{Shape(leaf.array_shape().size(), 0), leaf.array()}};
}

ConstArrayView PartOf(const ArrayShard& shard, Box box) {
  for (size_t i = 0; i < box.origin.size(); ++i) {
    box.origin[i] -= shard.origin[i];
  }
  return Subview(shard.array.view(), box);
}

// Returns whether two parts have equal elements at `box`. Elements that readers
// return are equal only to those of the same reader.
bool SameAt(const ArrayShard& a, const ArrayShard& b, const Box& box) {
  if (a.reader != nullptr || b.reader != nullptr) {
    return a.reader == b.reader && a.origin == b.origin;
  }
  return SameElements(PartOf(a, box), PartOf(b, box));
}

// Returns whether both arrays hold the same parts with equal elements. Shards
// with equal boxes are compared one by one; other shards by the elements that
// they share. REQUIRES: equal dtype and shape.
bool SameParts(const Tree& a, const Tree& b) {
  const std::vector<ArrayShard> a_parts = PartsOf(a), b_parts = PartsOf(b);
  std::vector<Box> b_boxes;
  for (const ArrayShard& part : b_parts) {
    b_boxes.push_back({part.origin, part.array.shape()});
  }
  const BoxIndex b_index(std::move(b_boxes));
  int64_t compared = 0;
  for (const ArrayShard& part : a_parts) {
    bool same = true;
    b_index.ForEachOverlap({part.origin, part.array.shape()},
                           [&](size_t i, const Box& common) {
                             compared += ElementCount(common.shape);
                             same = same && SameAt(part, b_parts[i], common);
                           });
    if (!same) return false;
  }
  const auto held = [](const std::vector<ArrayShard>& parts) {
    int64_t count = 0;
    for (const ArrayShard& part : parts) count += part.array.element_count();
    return count;
  };
  // Equal elements are not enough: both must hold the same part of the array.
  return compared == held(a_parts) && compared == held(b_parts);
}

}  // namespace

bool IsIntegerText(std::string_view text) {
  const auto number = ParseNumber<int64_t>(text);
  return number && std::to_string(*number) == text;
}

bool operator==(const Scalar& a, const Scalar& b) {
  return a.dtype == b.dtype && a.is_python == b.is_python &&
         a.view() == b.view();
}

Tree::Tree(Array array)
    : node_(ArrayLeaf{std::move(array), ArrayKind::kNumpy, nullptr, nullptr}) {}
Tree::Tree(Scalar scalar) : node_(scalar) {}
Tree::Tree(std::string text)
    : node_(TextLeaf{LeafKind::kString, std::move(text)}) {}
Tree::Tree(const char* text) : Tree(std::string(text)) {}
Tree::Tree(std::string_view text) : Tree(std::string(text)) {}
Tree::Tree(std::complex<double> v)
    : Tree(Scalar::Of(DType::kComplex128, v, true)) {}

Tree Tree::FromMembers(NodeKind kind, std::vector<Member> members) {
  Container container{kind, {}, {}, nullptr};
  container.keys.reserve(members.size());
  container.children.reserve(members.size());
  for (Member& member : members) {
    container.keys.push_back(std::move(member.first));
    container.children.push_back(std::move(member.second));
  }
  Tree tree;
  tree.node_ = std::move(container);
  return tree;
}

Tree Tree::FromItems(NodeKind kind, std::vector<Tree> items) {
  Tree tree;
  tree.node_ = Container{kind, {}, std::move(items), nullptr};
  return tree;
}

Tree Tree::Dict(std::vector<Member> members) {
  return FromMembers(NodeKind::kDict, std::move(members));
}

Tree Tree::IntegerDict(std::vector<std::pair<int64_t, Tree>> members) {
  Tree tree = Dict();
  for (auto& [key, child] : members) {
    tree.Add(std::to_string(key), std::move(child), KeyKind::kInteger);
  }
  return tree;
}

Tree Tree::List(std::vector<Tree> items) {
  return FromItems(NodeKind::kList, std::move(items));
}

Tree Tree::Tuple(std::vector<Tree> items) {
  return FromItems(NodeKind::kTuple, std::move(items));
}

Tree Tree::Positional(std::vector<Tree> items) {
  Tree tree = Tuple(std::move(items));
  std::get<Container>(tree.node_).type = std::make_shared<const TypeName>();
  return tree;
}

Tree Tree::NamedTuple(std::string module, std::string type_name,
                      std::vector<Member> fields) {
  Tree tree = FromMembers(NodeKind::kNamedTuple, std::move(fields));
  std::get<Container>(tree.node_).type = std::make_shared<const TypeName>(
      TypeName{std::move(module), std::move(type_name)});
  return tree;
}

Tree Tree::JaxArray(Array array, std::shared_ptr<const ArrayTraits> traits) {
  Tree tree;
  tree.node_ =
      ArrayLeaf{std::move(array), ArrayKind::kJax, std::move(traits), nullptr};
  return tree;
}

Tree Tree::ShardedArray(Shape shape, std::vector<ArrayShard> shards,
                        std::shared_ptr<const ArrayTraits> traits) {
  assert(!shards.empty());
  const DType dtype = shards.front().array.dtype();
  return ShardedArray(dtype, std::move(shape), std::move(shards),
                      std::move(traits));
}

Tree Tree::ShardedArray(DType dtype, Shape shape,
                        std::vector<ArrayShard> shards,
                        std::shared_ptr<const ArrayTraits> traits,
                        ArrayKind kind) {
  Tree tree;
  Array first =
      shards.empty() ? Array::Outline(dtype, shape) : shards.front().array;
  tree.node_ = ArrayLeaf{std::move(first), kind, std::move(traits),
                         std::make_shared<const Sharded>(
                             Sharded{std::move(shape), std::move(shards)})};
  return tree;
}

Tree Tree::DeferredArray(DType dtype, Shape shape,
                         std::shared_ptr<const ArrayReader> reader,
                         ArrayKind kind,
                         std::shared_ptr<const ArrayTraits> traits) {
  Tree tree;
  tree.node_ = ArrayLeaf{Array::Outline(dtype, shape), kind, std::move(traits),
                         nullptr, std::move(reader)};
  return tree;
}

Tree Tree::Placeholder() {
  Tree tree;
  tree.node_ = LeafKind::kPlaceholder;
  return tree;
}

Tree Tree::ByteString(std::string bytes) {
  Tree tree;
  tree.node_ = TextLeaf{LeafKind::kBytes, std::move(bytes)};
  return tree;
}

Tree Tree::Reference(std::string param_name) {
  Tree tree;
  tree.node_ = TextLeaf{LeafKind::kReference, std::move(param_name)};
  return tree;
}

Tree Tree::External(std::string value_type) {
  Tree tree;
  tree.node_ = TextLeaf{LeafKind::kExternal, std::move(value_type)};
  return tree;
}

Tree Tree::Object(std::any object) {
  Tree tree;
  tree.node_ = std::make_shared<const std::any>(std::move(object));
  return tree;
}

NodeKind Tree::kind() const {
  const Container* container = std::get_if<Container>(&node_);
  return container ? container->kind : NodeKind::kLeaf;
}

bool Tree::is_sequence() const {
  return kind() == NodeKind::kList || kind() == NodeKind::kTuple;
}

size_t Tree::size() const { return children().size(); }

const std::vector<Tree>& Tree::children() const {
  static const std::vector<Tree> kNoChildren;
  const Container* container = std::get_if<Container>(&node_);
  return container ? container->children : kNoChildren;
}

const std::vector<std::string>& Tree::keys() const {
  static const std::vector<std::string> kNoKeys;
  const Container* container = std::get_if<Container>(&node_);
  return container ? container->keys : kNoKeys;
}

const Tree* Tree::Find(std::string_view key) const {
  const std::vector<Tree>& all = children();
  if (is_sequence()) {
    const auto index = ParseNumber<size_t>(key);
    return index && *index < all.size() ? &all[*index] : nullptr;
  }
  for (size_t i = 0; i < all.size(); ++i) {
    if (keys()[i] == key) return &all[i];
  }
  return nullptr;
}

const Tree* Tree::FindPath(const std::vector<std::string>& path) const {
  const Tree* node = this;
  for (const std::string& key : path) {
    node = node->Find(key);
    if (node == nullptr) return nullptr;
  }
  return node;
}

KeyKind Tree::key_kind(size_t i) const {
  assert(i < size());
  if (is_sequence()) return KeyKind::kIndex;
  const std::vector<bool>& is_integer = std::get<Container>(node_).is_integer;
  return i < is_integer.size() && is_integer[i] ? KeyKind::kInteger
                                                : KeyKind::kName;
}

void Tree::Add(std::string key, Tree child, KeyKind kind) {
  assert(is_mapping() && kind != KeyKind::kIndex);
  Container& container = std::get<Container>(node_);
  if (kind == KeyKind::kInteger) {
    assert(IsIntegerText(key));
    container.is_integer.resize(container.keys.size());
    container.is_integer.push_back(true);
  }
  container.keys.push_back(std::move(key));
  container.children.push_back(std::move(child));
}

void Tree::Append(Tree child) {
  assert(is_sequence());
  std::get<Container>(node_).children.push_back(std::move(child));
}

Tree& Tree::mutable_child(size_t index) {
  assert(index < size());
  return std::get<Container>(node_).children[index];
}

bool Tree::is_other_class() const {
  const Container* container = std::get_if<Container>(&node_);
  return container != nullptr && container->type != nullptr &&
         container->type->name.empty();
}

const std::string& Tree::type_module() const {
  assert(kind() == NodeKind::kNamedTuple);
  return std::get<Container>(node_).type->module;
}

const std::string& Tree::type_name() const {
  assert(kind() == NodeKind::kNamedTuple);
  return std::get<Container>(node_).type->name;
}

LeafKind Tree::leaf_kind() const {
  assert(is_leaf());
  if (const LeafKind* kind = std::get_if<LeafKind>(&node_)) return *kind;
  if (const TextLeaf* text = std::get_if<TextLeaf>(&node_)) return text->kind;
  if (std::holds_alternative<std::shared_ptr<const std::any>>(node_)) {
    return LeafKind::kObject;
  }
  return std::holds_alternative<Scalar>(node_) ? LeafKind::kScalar
                                               : LeafKind::kArray;
}

const Array& Tree::array() const {
  assert(leaf_kind() == LeafKind::kArray);
  return std::get<ArrayLeaf>(node_).array;
}

ArrayKind Tree::array_kind() const {
  assert(leaf_kind() == LeafKind::kArray);
  return std::get<ArrayLeaf>(node_).kind;
}

DType Tree::array_dtype() const { return array().dtype(); }

const Shape& Tree::array_shape() const {
  const ArrayLeaf& leaf = std::get<ArrayLeaf>(node_);
  return leaf.sharded != nullptr ? leaf.sharded->shape : leaf.array.shape();
}

const std::vector<ArrayShard>& Tree::shards() const {
  static const std::vector<ArrayShard> kNoShards;
  assert(leaf_kind() == LeafKind::kArray);
  const ArrayLeaf& leaf = std::get<ArrayLeaf>(node_);
  return leaf.sharded != nullptr ? leaf.sharded->shards : kNoShards;
}

bool Tree::is_sharded() const {
  assert(leaf_kind() == LeafKind::kArray);
  return std::get<ArrayLeaf>(node_).sharded != nullptr;
}

const ArrayReader* Tree::reader() const {
  assert(leaf_kind() == LeafKind::kArray);
  return std::get<ArrayLeaf>(node_).reader.get();
}

const ArrayTraits& Tree::array_traits() const {
  static const ArrayTraits kDefaultTraits;
  assert(leaf_kind() == LeafKind::kArray);
  const ArrayLeaf& leaf = std::get<ArrayLeaf>(node_);
  return leaf.traits != nullptr ? *leaf.traits : kDefaultTraits;
}

const Scalar& Tree::scalar() const {
  assert(leaf_kind() == LeafKind::kScalar);
  return std::get<Scalar>(node_);
}

const std::string& Tree::text() const {
  assert(std::holds_alternative<TextLeaf>(node_));
  return std::get<TextLeaf>(node_).text;
}

const std::any& Tree::object() const {
  assert(leaf_kind() == LeafKind::kObject);
  return *std::get<std::shared_ptr<const std::any>>(node_);
}

namespace {

bool SameLeaf(const Tree& a, const Tree& b) {
  if (a.leaf_kind() != b.leaf_kind()) return false;
  switch (a.leaf_kind()) {
    case LeafKind::kNone:
    case LeafKind::kPlaceholder:
      return true;
    case LeafKind::kScalar:
      return a.scalar() == b.scalar();
    case LeafKind::kString:
    case LeafKind::kBytes:
    case LeafKind::kReference:
    case LeafKind::kExternal:
      return a.text() == b.text();
    case LeafKind::kObject:
      return &a.object() == &b.object();
    case LeafKind::kArray:
      break;
  }
  if (a.array_kind() != b.array_kind()) return false;
  if (a.array_traits() != b.array_traits() ||
      a.array_dtype() != b.array_dtype() ||
      a.array_shape() != b.array_shape()) {
    return false;
  }
  // Elements that a reader would load cannot be compared without reading them.
  if (a.reader() != nullptr || b.reader() != nullptr) {
    return a.reader() == b.reader();
  }
  if (!a.is_sharded() && !b.is_sharded()) {
    return SameElements(a.array().view(), b.array().view());
  }
  return SameParts(a, b);
}

// REQUIRES: containers of one kind, with the same keys.
bool SameKeyKinds(const Tree& a, const Tree& b) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (a.key_kind(i) != b.key_kind(i)) return false;
  }
  return true;
}

}  // namespace

bool operator==(const Tree& a, const Tree& b) {
  if (a.kind() != b.kind()) return false;
  if (a.is_leaf()) return SameLeaf(a, b);
  if (a.kind() == NodeKind::kNamedTuple &&
      (a.type_module() != b.type_module() || a.type_name() != b.type_name())) {
    return false;
  }
  return a.is_other_class() == b.is_other_class() && a.keys() == b.keys() &&
         SameKeyKinds(a, b) && a.children() == b.children();
}

}  // namespace holdfast
