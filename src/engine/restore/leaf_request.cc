#include "engine/restore/leaf_request.h"

#include <algorithm>

#include "ground/tensor/box.h"
#include "ground/tree/flatten.h"
#include "ground/tree/value_type.h"

namespace holdfast {
LeafInfo NamedLeaf(std::string name, ValueKind kind) {
  LeafInfo info;
  info.key = {name};
  info.key_kinds = {KeyKind::kName};
  info.name = std::move(name);
  info.kind = kind;
  return info;
}

CheckpointInfo OneItemInfo(std::string path, std::string format) {
  CheckpointInfo info;
  info.path = std::move(path);
  info.format = std::move(format);
  info.items[""] = "";
  return info;
}

KeyPath PathOf(const LeafInfo& leaf) {
  KeyPath path;
  for (size_t i = 0; i < leaf.key.size(); ++i) {
    path.push_back({leaf.key[i], i < leaf.key_kinds.size() ? leaf.key_kinds[i]
                                                           : KeyKind::kName});
  }
  return path;
}

std::vector<Box> SlabsOf(const LeafInfo& leaf, uint64_t slab_bytes) {
  const bool is_small = leaf.decoded_bytes <= slab_bytes;
  if (is_small || leaf.shape.empty() || leaf.chunk_shape.empty()) {
    return {BoxOf(leaf.shape)};
  }
  const int64_t row_count = leaf.shape[0];
  const uint64_t row_bytes =
      std::max<uint64_t>(1, leaf.decoded_bytes / row_count);
  const int64_t chunk_rows = leaf.codecs == "none" ? 1 : leaf.chunk_shape[0];
  const int64_t wanted_rows = std::max<int64_t>(1, slab_bytes / row_bytes);
  const int64_t slab_rows =
      (wanted_rows + chunk_rows - 1) / chunk_rows * chunk_rows;
  std::vector<Box> slabs;
  for (int64_t first = 0; first < row_count; first += slab_rows) {
    Box& slab = slabs.emplace_back(BoxOf(leaf.shape));
    slab.origin[0] = first;
    slab.shape[0] = std::min(slab_rows, row_count - first);
  }
  return slabs;
}

Result<Tree> StructureOf(const std::vector<LeafInfo>& leaves) {
  if (leaves.empty()) return Tree::Dict();
  std::vector<UnflattenEntry> entries;
  for (size_t i = 0; i < leaves.size(); ++i) {
    entries.push_back({PathOf(leaves[i]), IsEmptyKind(leaves[i].kind)
                                              ? EmptyValue(leaves[i].kind)
                                              : Tree(static_cast<int64_t>(i))});
  }
  return Unflatten(std::move(entries));
}

bool IsSelected(const std::vector<std::string>& names,
                std::string_view leaf_name) {
  if (names.empty()) return true;
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return leaf_name == name || name.empty() ||
           (leaf_name.size() > name.size() && leaf_name.starts_with(name) &&
            leaf_name[name.size()] == '.');
  });
}

Status CheckNamesExist(const std::vector<std::string>& names,
                       const std::vector<std::string_view>& leaf_names) {
  for (const std::string& name : names) {
    const bool found = std::any_of(
        leaf_names.begin(), leaf_names.end(),
        [&](std::string_view leaf) { return IsSelected({name}, leaf); });
    if (!found) {
      return NotFoundError("no leaf is named \"" + name +
                           "\" or lies below it");
    }
  }
  return Status();
}

ValueKind KindOfValueType(std::string_view value_type) {
  if (value_type == kValueTypeNone) return ValueKind::kNone;
  if (value_type == kValueTypeDict) return ValueKind::kEmptyDict;
  if (value_type == kValueTypeList) return ValueKind::kEmptyList;
  if (value_type == kValueTypeString) return ValueKind::kString;
  if (value_type == kValueTypeScalar) return ValueKind::kScalar;
  if (value_type == kValueTypePlaceholder) return ValueKind::kPlaceholder;
  return IsEmptyValueType(value_type) ? ValueKind::kEmptyTuple
                                      : ValueKind::kArray;
}

bool HasElements(ValueKind kind) {
  return kind == ValueKind::kArray || kind == ValueKind::kScalar;
}

bool HasText(ValueKind kind) {
  return kind == ValueKind::kString || kind == ValueKind::kBytes ||
         kind == ValueKind::kJson || kind == ValueKind::kObject;
}

bool IsEmptyKind(ValueKind kind) {
  return kind == ValueKind::kNone || kind == ValueKind::kEmptyDict ||
         kind == ValueKind::kEmptyList || kind == ValueKind::kEmptyTuple;
}

Tree EmptyValue(ValueKind kind) {
  switch (kind) {
    case ValueKind::kEmptyDict:
      return Tree::Dict();
    case ValueKind::kEmptyList:
      return Tree::List();
    case ValueKind::kEmptyTuple:
      return Tree::Tuple();
    case ValueKind::kPlaceholder:
      return Tree::Placeholder();
    default:
      return Tree::None();
  }
}

}  // namespace holdfast
