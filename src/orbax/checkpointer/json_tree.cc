// Converts JSON documents to trees, and back.
#include <limits>

#include "ground/base/status_macros.h"
#include "ground/json/text.h"
#include "ground/tree/rebuild.h"
#include "holdfast/orbax/item_handlers.h"

namespace holdfast {
namespace {

using nlohmann::ordered_json;

Status NotJsonError(const Tree& leaf) {
  return InvalidArgumentError("Object of type " + PythonClassText(leaf) +
                              " is not JSON serializable");
}

Result<ordered_json> JsonOfScalar(const Tree& leaf) {
  const Scalar& scalar = leaf.scalar();
  if (!scalar.is_python) return NotJsonError(leaf);
  switch (scalar.dtype) {
    case DType::kBool:
      return ordered_json(scalar.As<bool>());
    case DType::kInt64:
      return ordered_json(scalar.As<int64_t>());
    case DType::kUint64:
      return ordered_json(scalar.As<uint64_t>());
    case DType::kFloat64:
      return ordered_json(scalar.As<double>());
    default:
      return NotJsonError(leaf);
  }
}

Result<ordered_json> JsonOfLeaf(const Tree& leaf) {
  switch (leaf.leaf_kind()) {
    case LeafKind::kNone:
      return ordered_json(nullptr);
    case LeafKind::kString:
      return ordered_json(leaf.text());
    case LeafKind::kScalar:
      return JsonOfScalar(leaf);
    default:
      return NotJsonError(leaf);
  }
}

Result<ordered_json> JsonOf(const Tree& value, int depth_left) {
  if (depth_left == 0) {
    return InvalidArgumentError("the value is nested too deeply for JSON");
  }
  if (value.is_leaf()) return JsonOfLeaf(value);
  ordered_json json =
      value.is_sequence() || value.kind() == NodeKind::kNamedTuple
          ? ordered_json::array()
          : ordered_json::object();
  for (size_t i = 0; i < value.size(); ++i) {
    HF_ASSIGN_OR_RETURN(ordered_json child,
                        JsonOf(value.children()[i], depth_left - 1));
    if (json.is_array()) {
      json.push_back(std::move(child));
    } else {
      json[value.keys()[i]] = std::move(child);
    }
  }
  return json;
}

// Converts parsed JSON, recursively. The parser limits the depth.
Tree TreeOf(const ordered_json& json) {
  if (json.is_object()) {
    std::vector<Tree::Member> members;
    for (const auto& [key, value] : json.items()) {
      members.emplace_back(key, TreeOf(value));
    }
    return Tree::Dict(std::move(members));
  }
  if (json.is_array()) {
    std::vector<Tree> items;
    for (const ordered_json& value : json) items.push_back(TreeOf(value));
    return Tree::List(std::move(items));
  }
  if (json.is_string()) return Tree(json.get<std::string>());
  if (json.is_boolean()) return Tree(json.get<bool>());
  if (json.is_number_unsigned() &&
      json.get<uint64_t>() >
          static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return Tree(Scalar::Of(DType::kUint64, json.get<uint64_t>(), true));
  }
  if (json.is_number_integer()) return Tree(json.get<int64_t>());
  if (json.is_number_float()) return Tree(json.get<double>());
  return Tree::None();
}

}  // namespace

Result<std::string> JsonTextOf(const Tree& value) {
  HF_ASSIGN_OR_RETURN(const ordered_json json, JsonOf(value, kTreeDepthMax));
  return PythonJsonText(json);
}

Result<Tree> TreeOfJsonText(std::string_view text) {
  HF_ASSIGN_OR_RETURN(const ordered_json json, ParseJsonText(text));
  return TreeOf(json);
}

}  // namespace holdfast
