#include "engine/format/array_specs.h"

#include <string_view>
#include <utility>

#include "ground/base/text.h"

namespace holdfast {
namespace {

// Returns null if the dict has no text with that name.
const std::string* TextMember(const Tree& dict, std::string_view name) {
  const Tree* const member = dict.Find(name);
  const bool is_text = member != nullptr && member->is_leaf() &&
                       member->leaf_kind() == LeafKind::kString;
  return is_text ? &member->text() : nullptr;
}

std::string TextOr(const Tree& dict, std::string_view name) {
  const std::string* const text = TextMember(dict, name);
  return text == nullptr ? std::string() : *text;
}

bool IsDict(const Tree* node) {
  return node != nullptr && node->kind() == NodeKind::kDict;
}

// Reads a shape. Flax writes lists as lists, or as dicts with keys "0", "1",
// ...
std::optional<Shape> ShapeOf(const Tree* node) {
  if (node == nullptr || node->is_leaf()) return std::nullopt;
  Shape shape;
  for (size_t i = 0; i < node->size(); ++i) {
    const Tree* const extent = node->Find(std::to_string(i));
    const bool is_extent = extent != nullptr && extent->is_leaf() &&
                           extent->leaf_kind() == LeafKind::kScalar &&
                           extent->scalar().dtype == DType::kInt64;
    if (!is_extent) return std::nullopt;
    shape.push_back(extent->scalar().As<int64_t>());
  }
  return shape;
}

// Returns the directory below the checkpoint for a path in a spec. Only the end
// of a path is used if it starts at the root of the machine that saved, or of
// its bucket.
std::string ArrayOfPath(std::string path) {
  while (path.ends_with('/')) path.pop_back();
  if (path.starts_with("./")) path.erase(0, 2);
  if (!path.starts_with('/')) return path;
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

std::optional<ArraySpec> ParseArraySpec(const Tree& node) {
  if (!IsDict(&node) || TextMember(node, "driver") == nullptr) {
    return std::nullopt;
  }
  const std::string driver = TextOr(node, "driver");
  const Tree* const base = node.Find("base");
  if (driver == "cast" && IsDict(base)) return ParseArraySpec(*base);
  const Tree* const kvstore = node.Find("kvstore");
  if (!IsDict(kvstore) || TextMember(*kvstore, "driver") == nullptr) {
    return std::nullopt;
  }
  ArraySpec spec;
  const Tree* const metadata = node.Find("metadata");
  if (IsDict(metadata)) spec.shape = ShapeOf(metadata->Find("shape"));
  const std::string path = TextOr(*kvstore, "path");
  const std::string below = TextOr(node, "path");
  spec.array = ArrayOfPath(path.empty() || below.empty() ? path + below
                                                         : path + "/" + below);
  if (driver != "zarr" && driver != "zarr3") {
    spec.problem = UnimplementedError(
        "it is stored by TensorStore's driver \"" + driver +
        "\" (want zarr or zarr3); read it with TensorStore itself");
  }
  return spec;
}

ArraySpecs TakeArraySpecs(Tree& tree) {
  ArraySpecs specs;
  const auto visit = [&](const auto& self, Tree& node) -> void {
    if (std::optional<ArraySpec> spec = ParseArraySpec(node)) {
      std::string key = "spec " + std::to_string(specs.size());
      node = Tree::Reference(key);
      specs.emplace(std::move(key), *std::move(spec));
      return;
    }
    for (size_t i = 0; i < node.size(); ++i) self(self, node.mutable_child(i));
  };
  visit(visit, tree);
  return specs;
}

}  // namespace holdfast
