#include "interop/target_sidecar.h"

#include <algorithm>
#include <cassert>

namespace holdfast {
namespace {

bool IsPlainLeaf(const TargetLeaf& leaf, std::string_view format) {
  const bool has_one_key =
      leaf.key.size() == 1 && leaf.key[0] == leaf.name &&
      std::find(leaf.key_is_sequence.begin(), leaf.key_is_sequence.end(),
                true) == leaf.key_is_sequence.end();
  return has_one_key && leaf.kind == ValueKind::kArray &&
         StorableDType(format, leaf.dtype) == StoredAs{leaf.dtype, 0} &&
         leaf.value_type.empty() && leaf.prng_impl.empty() &&
         leaf.sharding_json.empty() && !leaf.write_shape;
}

bool HasStoredElements(ValueKind kind) {
  return kind == ValueKind::kArray || kind == ValueKind::kScalar;
}

}  // namespace

bool NeedsSidecar(const TargetPlan& plan, std::string_view format) {
  const CheckpointInfo& info = plan.source_info;
  return !info.custom_metadata.empty() || !info.item_custom_metadata.empty() ||
         !info.value_metadata_tree.empty() ||
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
    seen.key_is_sequence = leaf.key_is_sequence;
    seen.kind = leaf.kind;
    if (HasStoredElements(leaf.kind)) {
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
  sidecar.item_custom_metadata = info.item_custom_metadata;
  sidecar.value_metadata_tree = info.value_metadata_tree;
  return sidecar;
}

}  // namespace holdfast
