#include "holdfast/tree.h"

#include <cassert>
#include <charconv>
#include <cstring>

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

bool SameElements(const Array& a, const Array& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const size_t element_bytes = DTypeBytes(a.dtype());
  if (IsContiguous(a.view()) && IsContiguous(b.view())) {
    const size_t bytes = a.byte_count();
    return bytes == 0 || std::memcmp(a.view().data, b.view().data, bytes) == 0;
  }
  std::vector<int64_t> offsets;
  EveryElement(a.view(), 0, 0, [&](int64_t offset) {
    offsets.push_back(offset);
    return true;
  });
  size_t next = 0;
  return EveryElement(b.view(), 0, 0, [&](int64_t offset) {
    return std::memcmp(a.view().data + offsets[next++], b.view().data + offset,
                       element_bytes) == 0;
  });
}

}  // namespace

bool operator==(const Scalar& a, const Scalar& b) {
  return a.dtype == b.dtype && a.is_python == b.is_python &&
         a.view() == b.view();
}

Tree::Tree(Array array)
    : node_(ArrayLeaf{std::move(array), ArrayKind::kNumpy, nullptr}) {}
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

Tree Tree::List(std::vector<Tree> items) {
  return FromItems(NodeKind::kList, std::move(items));
}

Tree Tree::Tuple(std::vector<Tree> items) {
  return FromItems(NodeKind::kTuple, std::move(items));
}

Tree Tree::NamedTuple(std::string module, std::string type_name,
                      std::vector<Member> fields) {
  Tree tree = FromMembers(NodeKind::kNamedTuple, std::move(fields));
  std::get<Container>(tree.node_).type = std::make_shared<const TypeName>(
      TypeName{std::move(module), std::move(type_name)});
  return tree;
}

Tree Tree::JaxArray(Array array,
                    std::shared_ptr<const std::string> sharding_json) {
  Tree tree;
  tree.node_ =
      ArrayLeaf{std::move(array), ArrayKind::kJax, std::move(sharding_json)};
  return tree;
}

Tree Tree::JaxArray(Array array, std::string sharding_json) {
  return JaxArray(std::move(array), std::make_shared<const std::string>(
                                        std::move(sharding_json)));
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
    size_t index = 0;
    auto [end, error] =
        std::from_chars(key.data(), key.data() + key.size(), index);
    if (error != std::errc() || end != key.data() + key.size()) return nullptr;
    return index < all.size() ? &all[index] : nullptr;
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

void Tree::Add(std::string key, Tree child) {
  assert(is_mapping());
  Container& container = std::get<Container>(node_);
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

std::string_view Tree::sharding_json() const {
  assert(array_kind() == ArrayKind::kJax);
  const ArrayLeaf& leaf = std::get<ArrayLeaf>(node_);
  if (leaf.sharding_json == nullptr) return kSingleDeviceShardingJson;
  return *leaf.sharding_json;
}

const Scalar& Tree::scalar() const {
  assert(leaf_kind() == LeafKind::kScalar);
  return std::get<Scalar>(node_);
}

const std::string& Tree::text() const {
  assert(std::holds_alternative<TextLeaf>(node_));
  return std::get<TextLeaf>(node_).text;
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
      return a.text() == b.text();
    case LeafKind::kArray:
      break;
  }
  if (a.array_kind() != b.array_kind()) return false;
  if (a.array_kind() == ArrayKind::kJax &&
      a.sharding_json() != b.sharding_json()) {
    return false;
  }
  return SameElements(a.array(), b.array());
}

}  // namespace

bool operator==(const Tree& a, const Tree& b) {
  if (a.kind() != b.kind()) return false;
  if (a.is_leaf()) return SameLeaf(a, b);
  if (a.kind() == NodeKind::kNamedTuple &&
      (a.type_module() != b.type_module() || a.type_name() != b.type_name())) {
    return false;
  }
  return a.keys() == b.keys() && a.children() == b.children();
}

}  // namespace holdfast
