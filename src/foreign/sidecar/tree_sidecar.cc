#include "foreign/sidecar/tree_sidecar.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/restore/leaf_request.h"
#include "ground/base/coding.h"
#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "ground/base/utf8.h"

namespace holdfast {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

std::optional<ValueKind> ValueKindOf(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(ValueKind::kObject); ++i) {
    const auto kind = static_cast<ValueKind>(i);
    if (ValueKindName(kind) == name) return kind;
  }
  return std::nullopt;
}

// Shardings are long, and many arrays have the same sharding.
class ShardingTable {
 public:
  size_t IndexOf(const std::string& text) {
    const auto [at, is_new] = indexes_.emplace(text, texts_.size());
    if (is_new) texts_.push_back(text);
    return at->second;
  }
  const Json& texts() const { return texts_; }

 private:
  std::map<std::string, size_t> indexes_;
  Json texts_ = Json::array();
};

void PutText(std::string_view name, const std::string& text, Json& out) {
  if (!text.empty()) out[std::string(name)] = text;
}

// Writes one bool per key: whether the key has this kind. Writes nothing if no
// key has this kind.
void PutKind(const char* name, const SidecarLeaf& leaf, KeyKind kind,
             Json& out) {
  Json flags = Json::array();
  for (const KeyKind key_kind : leaf.key_kinds) {
    flags.push_back(key_kind == kind);
  }
  if (std::ranges::count(leaf.key_kinds, kind) > 0) out[name] = flags;
}

Json JsonOf(const SidecarLeaf& leaf, ShardingTable& shardings) {
  Json out = Json::object();
  out["key"] = leaf.key;
  PutKind("is_sequence", leaf, KeyKind::kIndex, out);
  PutKind("is_integer", leaf, KeyKind::kInteger, out);
  out["kind"] = ValueKindName(leaf.kind);
  if (leaf.dtype) {
    out["dtype"] = DTypeName(*leaf.dtype);
    out["shape"] = leaf.shape;
  }
  PutText("stored", leaf.stored, out);
  if (leaf.stored.empty() && !leaf.text.empty()) {
    const bool is_text = IsValidUtf8(leaf.text) && !HasElements(leaf.kind);
    out[is_text ? "text" : "hex"] = is_text ? leaf.text : ToHex(leaf.text);
  }
  PutText("value_type", leaf.value_type, out);
  PutText("prng_impl", leaf.prng_impl, out);
  if (!leaf.sharding_json.empty()) {
    out["sharding"] = shardings.IndexOf(leaf.sharding_json);
  }
  if (leaf.write_shape) out["write_shape"] = *leaf.write_shape;
  return out;
}

class Parser {
 public:
  Result<TreeSidecar> Parse(std::string_view text) {
    const Json document =
        Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!document.is_object()) return Bad("it is not a JSON object");
    const auto version = document.find("version");
    if (version == document.end() || !version->is_number_integer()) {
      return Bad("it has no version");
    }
    if (*version != kVersion) {
      return Bad("its version is not 1, the only known one");
    }
    TreeSidecar sidecar;
    HF_RETURN_IF_ERROR(TakeTop(document, sidecar));
    const auto leaves = document.find("leaves");
    if (leaves == document.end() || !leaves->is_array()) {
      return Bad("it has no list of leaves");
    }
    for (const Json& leaf : *leaves) {
      HF_RETURN_IF_ERROR(TakeLeaf(leaf, sidecar.leaves.emplace_back()));
    }
    return sidecar;
  }

 private:
  Status Bad(const std::string& why) const {
    std::string where = "the tree of holdfast";
    if (!leaf_.empty()) where += ": leaf " + leaf_;
    return DataLossError(where + ": " + why);
  }

  Status TakeText(const Json& from, const char* name, std::string& out) {
    const auto at = from.find(name);
    if (at == from.end()) return Status();
    if (!at->is_string()) return Bad(std::string(name) + " is not a string");
    out = at->get<std::string>();
    return Status();
  }

  Status TakeTop(const Json& document, TreeSidecar& sidecar) {
    const auto partial = document.find("partial");
    sidecar.is_partial = partial != document.end() && *partial == true;
    const auto items = document.find("items");
    if (items != document.end()) {
      if (!items->is_object()) return Bad("items is not an object");
      for (const auto& [name, directory] : items->items()) {
        if (!directory.is_string()) return Bad("an item is not a string");
        sidecar.items[name] = directory.get<std::string>();
      }
    }
    HF_RETURN_IF_ERROR(
        TakeText(document, "custom_metadata", sidecar.custom_metadata));
    HF_RETURN_IF_ERROR(TakeText(document, "item_custom_metadata",
                                sidecar.item_custom_metadata));
    HF_RETURN_IF_ERROR(
        TakeText(document, "value_metadata_tree", sidecar.value_metadata_tree));
    const auto shardings = document.find("shardings");
    if (shardings == document.end()) return Status();
    if (!shardings->is_array()) return Bad("shardings is not a list");
    for (const Json& text : *shardings) {
      if (!text.is_string()) return Bad("a sharding is not a string");
      shardings_.push_back(text.get<std::string>());
    }
    return Status();
  }

  Status TakeKey(const Json& from, SidecarLeaf& leaf) {
    const auto key = from.find("key");
    if (key == from.end() || !key->is_array()) return Bad("it has no key");
    for (const Json& part : *key) {
      if (!part.is_string()) return Bad("a part of its key is not a string");
      leaf.key.push_back(part.get<std::string>());
      leaf_ += (leaf_.empty() ? "" : ".") + leaf.key.back();
    }
    leaf.key_kinds.assign(leaf.key.size(), KeyKind::kName);
    HF_RETURN_IF_ERROR(TakeKind(from, "is_sequence", KeyKind::kIndex, leaf));
    return TakeKind(from, "is_integer", KeyKind::kInteger, leaf);
  }

  Status TakeKind(const Json& from, const std::string& name, KeyKind kind,
                  SidecarLeaf& leaf) {
    const auto flags = from.find(name);
    if (flags == from.end()) return Status();
    if (!flags->is_array() || flags->size() != leaf.key.size()) {
      return Bad(name + " is not a list of one bool a key");
    }
    for (size_t i = 0; i < leaf.key.size(); ++i) {
      if (!(*flags)[i].is_boolean()) return Bad(name + " is not a bool");
      if (!(*flags)[i].get<bool>()) continue;
      leaf.key_kinds[i] = kind;
      if (kind == KeyKind::kInteger && !IsIntegerText(leaf.key[i])) {
        return Bad("its key " + leaf.key[i] + " is not an integer");
      }
    }
    return Status();
  }

  Status TakeShape(const Json& from, const char* name, Shape& shape) {
    const auto at = from.find(name);
    if (at == from.end() || !at->is_array() || at->size() > kRankMax) {
      return Bad(std::string(name) + " is not a list of at most " +
                 std::to_string(kRankMax) + " extents");
    }
    for (const Json& extent : *at) {
      if (!extent.is_number_integer() || extent.get<int64_t>() < 0) {
        return Bad(std::string(name) + " holds no extents");
      }
      shape.push_back(extent.get<int64_t>());
    }
    return Status();
  }

  Status TakeValue(const Json& from, SidecarLeaf& leaf) {
    HF_RETURN_IF_ERROR(TakeText(from, "stored", leaf.stored));
    HF_RETURN_IF_ERROR(TakeText(from, "text", leaf.text));
    std::string hex;
    HF_RETURN_IF_ERROR(TakeText(from, "hex", hex));
    if (!hex.empty()) {
      std::optional<std::string> bytes = BytesOfHex(hex);
      if (!bytes) return Bad("hex holds no bytes");
      leaf.text = *std::move(bytes);
    }
    if (!HasElements(leaf.kind)) return Status();
    std::string dtype;
    HF_RETURN_IF_ERROR(TakeText(from, "dtype", dtype));
    leaf.dtype = DTypeFromName(dtype);
    if (!leaf.dtype) return Bad("it has no known dtype");
    HF_RETURN_IF_ERROR(TakeShape(from, "shape", leaf.shape));
    if (!leaf.stored.empty()) return Status();
    if (leaf.kind == ValueKind::kArray) {
      // An array without elements needs no stored bytes.
      const bool is_void = ElementCount(leaf.shape) == 0 && leaf.text.empty();
      return is_void ? Status() : Bad("it names no tensor");
    }
    if (leaf.text.size() != DTypeBytes(*leaf.dtype) || !leaf.shape.empty()) {
      return Bad("its value is not one element");
    }
    return Status();
  }

  Status TakeLeaf(const Json& from, SidecarLeaf& leaf) {
    leaf_.clear();
    if (!from.is_object()) return Bad("a leaf is not an object");
    HF_RETURN_IF_ERROR(TakeKey(from, leaf));
    std::string kind = "array";
    HF_RETURN_IF_ERROR(TakeText(from, "kind", kind));
    const std::optional<ValueKind> known = ValueKindOf(kind);
    if (!known) return Bad("kind \"" + kind + "\" is not known");
    leaf.kind = *known;
    HF_RETURN_IF_ERROR(TakeValue(from, leaf));
    HF_RETURN_IF_ERROR(TakeText(from, "value_type", leaf.value_type));
    HF_RETURN_IF_ERROR(TakeText(from, "prng_impl", leaf.prng_impl));
    if (from.contains("write_shape")) {
      HF_RETURN_IF_ERROR(
          TakeShape(from, "write_shape", leaf.write_shape.emplace()));
    }
    const auto sharding = from.find("sharding");
    if (sharding == from.end()) return Status();
    if (!sharding->is_number_unsigned() ||
        sharding->get<uint64_t>() >= shardings_.size()) {
      return Bad("its sharding is not in the list");
    }
    leaf.sharding_json = shardings_[sharding->get<uint64_t>()];
    return Status();
  }

  std::vector<std::string> shardings_;
  std::string leaf_;
};

DType UnsignedOfWidth(size_t bytes) {
  switch (bytes) {
    case 1:
      return DType::kUint8;
    case 2:
      return DType::kUint16;
    case 4:
      return DType::kUint32;
    default:
      return DType::kUint64;
  }
}

bool IsOneOf(DType dtype, std::initializer_list<DType> dtypes) {
  return std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end();
}

// Returns whether the dtype is bool, an integer of complete bytes, or an IEEE
// 754 float.
bool IsPlain(DType dtype) {
  return IsOneOf(dtype, {DType::kBool, DType::kInt8, DType::kInt16,
                         DType::kInt32, DType::kInt64, DType::kUint8,
                         DType::kUint16, DType::kUint32, DType::kUint64,
                         DType::kFloat16, DType::kFloat32, DType::kFloat64});
}

bool IsStorable(std::string_view format, DType dtype) {
  if (format == "npz") {
    return IsPlain(dtype) ||
           IsOneOf(dtype, {DType::kComplex64, DType::kComplex128});
  }
  if (format == "safetensors") {
    return IsPlain(dtype) ||
           IsOneOf(dtype, {DType::kBfloat16, DType::kFloat8E4m3fn,
                           DType::kFloat8E4m3fnuz, DType::kFloat8E5m2,
                           DType::kFloat8E5m2fnuz, DType::kFloat8E8m0fnu,
                           DType::kComplex64});
  }
  if (format == "dcp" || format == "torch-dist") {
    return IsPlain(dtype) ||
           IsOneOf(dtype, {DType::kBfloat16, DType::kFloat8E4m3fn,
                           DType::kFloat8E4m3fnuz, DType::kFloat8E5m2,
                           DType::kFloat8E5m2fnuz, DType::kFloat8E8m0fnu,
                           DType::kComplex64, DType::kComplex128});
  }
  if (format == "megatron-zarr") {  // numpy_to_torch_dtype_dict and bfloat16
    return (IsPlain(dtype) && !IsOneOf(dtype, {DType::kUint16, DType::kUint32,
                                               DType::kUint64})) ||
           IsOneOf(dtype,
                   {DType::kBfloat16, DType::kComplex64, DType::kComplex128});
  }
  return true;
}

}  // namespace

std::string SidecarText(const TreeSidecar& sidecar) {
  ShardingTable shardings;
  Json leaves = Json::array();
  for (const SidecarLeaf& leaf : sidecar.leaves) {
    leaves.push_back(JsonOf(leaf, shardings));
  }
  Json out = Json::object();
  out["version"] = kVersion;
  if (sidecar.is_partial) out["partial"] = true;
  if (!sidecar.items.empty()) out["items"] = sidecar.items;
  PutText("custom_metadata", sidecar.custom_metadata, out);
  PutText("item_custom_metadata", sidecar.item_custom_metadata, out);
  PutText("value_metadata_tree", sidecar.value_metadata_tree, out);
  if (!shardings.texts().empty()) out["shardings"] = shardings.texts();
  out["leaves"] = std::move(leaves);
  // Names are UTF-8 in every format; invalid bytes from a caller are replaced.
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<TreeSidecar> ParseSidecar(std::string_view text) {
  return Parser().Parse(text);
}

StoredAs StorableDType(std::string_view format, DType dtype) {
  if (IsStorable(format, dtype)) return {dtype, 0};
  const bool is_signed = format == "megatron-zarr";
  if (dtype == DType::kComplex64) return {DType::kFloat32, 2};
  if (dtype == DType::kComplex128) return {DType::kFloat64, 2};
  const size_t bytes = DTypeBytes(dtype);
  if (!is_signed || bytes == 1) return {UnsignedOfWidth(bytes), 0};
  switch (bytes) {  // uint8 is Megatron's only unsigned integer
    case 2:
      return {DType::kInt16, 0};
    case 4:
      return {DType::kInt32, 0};
    default:
      return {DType::kInt64, 0};
  }
}

Shape StorableShape(const StoredAs& stored, Shape shape) {
  if (stored.last_axis != 0) shape.push_back(stored.last_axis);
  return shape;
}

}  // namespace holdfast
