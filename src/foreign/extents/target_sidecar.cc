#include "foreign/extents/target_sidecar.h"

#include <algorithm>
#include <cassert>

#include "engine/restore/leaf_request.h"

namespace holdfast {
namespace {

bool IsPlainLeaf(const TargetLeaf& leaf, std::string_view format) {
  return HasOneKey(leaf, leaf.name) && leaf.kind == ValueKind::kArray &&
         StorableDType(format, leaf.dtype) == StoredAs{leaf.dtype, 0} &&
         !HasTraits(leaf);
}

}  // namespace

bool HasCustomMetadata(const CheckpointInfo& info) {
  return !info.custom_metadata.empty() || !info.item_custom_metadata.empty() ||
         !info.value_metadata_tree.empty() ||
         HasTreeDocuments(info.item_documents);
}

bool HasTraits(const TargetLeaf& leaf) {
  return !leaf.value_type.empty() || !leaf.prng_impl.empty() ||
         !leaf.sharding_json.empty() || leaf.write_shape;
}

bool HasOneKey(const TargetLeaf& leaf, std::string_view key) {
  return leaf.key.size() == 1 && leaf.key[0] == key &&
         std::all_of(leaf.key_kinds.begin(), leaf.key_kinds.end(),
                     [](KeyKind kind) { return kind == KeyKind::kName; });
}

bool NeedsSidecar(const TargetPlan& plan, std::string_view format) {
  return HasCustomMetadata(plan.source_info) ||
         !std::all_of(
             plan.leaves.begin(), plan.leaves.end(),
             [&](const TargetLeaf& leaf) { return IsPlainLeaf(leaf, format); });
}

TreeSidecar SidecarOf(const TargetPlan& plan,
                      const std::vector<std::string>& stored) {
  assert(stored.size() == plan.leaves.size());
  TreeSidecar sidecar;
  for (size_t i = 0; i < plan.leaves.size(); ++i) {
    const TargetLeaf& leaf = plan.leaves[i];
    SidecarLeaf& seen = sidecar.leaves.emplace_back();
    seen.key = leaf.key;
    seen.key_kinds = leaf.key_kinds;
    seen.kind = leaf.kind;
    if (HasElements(leaf.kind)) {
      seen.dtype = leaf.dtype;
      seen.shape = leaf.shape;
    }
    seen.stored = stored[i];
    if (stored[i].empty()) seen.text = leaf.text;
    seen.value_type = leaf.value_type;
    seen.prng_impl = leaf.prng_impl;
    seen.sharding_json = leaf.sharding_json;
    seen.write_shape = leaf.write_shape;
  }
  const CheckpointInfo& info = plan.source_info;
  sidecar.items = info.items;
  sidecar.custom_metadata = info.custom_metadata;
  sidecar.item_custom_metadata =
      WithTreeDocuments(info.item_custom_metadata, info.item_documents);
  sidecar.value_metadata_tree = info.value_metadata_tree;
  return sidecar;
}

}  // namespace holdfast
