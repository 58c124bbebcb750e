#include "crash/crash_device.h"

#include <string_view>
#include <utility>
#include <vector>

#include "ground/base/status_macros.h"
#include "ground/device/device_array.h"
#include "ground/device/device_reader.h"

namespace holdfast {
namespace {

// One slot, smaller than most arrays: the next save has none if a failed one
// keeps it.
constexpr PinnedRingOptions kRing = {
    .slot_bytes = 512, .byte_count_max = 512, .wait_seconds_max = 60};

}  // namespace

void CrashDevice::Restart() {
  ring_.reset();
  twin_ = std::make_unique<DeviceTwin>();
  ring_ = std::make_shared<PinnedRing>(*twin_, 0, kRing);
}

Result<std::shared_ptr<const ArrayReader>> CrashDevice::HoldArray(
    const Array& array) {
  const ConstArrayView& view = array.view();
  DeviceArray held{.dtype = view.dtype, .shape = view.shape};
  FillStrides(held);
  held.address = twin_->Allocate(0, {view.data, array.byte_count()});
  const auto free = [twin = twin_.get(), address = held.address](const void*) {
    twin->Free(address);
  };
  held.owner = std::shared_ptr<const void>(twin_.get(), free);
  HF_ASSIGN_OR_RETURN(std::shared_ptr<const ArrayReader> reader,
                      DeviceReader::Make(ring_, std::move(held)));
  return reader;
}

Result<Tree> CrashDevice::HoldLeaf(const Tree& leaf) {
  if (leaf.leaf_kind() != LeafKind::kArray) return leaf;
  const bool is_jax = leaf.array_kind() == ArrayKind::kJax;
  const auto traits =
      is_jax ? std::make_shared<const ArrayTraits>(leaf.array_traits())
             : nullptr;
  if (!leaf.is_sharded()) {
    HF_ASSIGN_OR_RETURN(auto reader, HoldArray(leaf.array()));
    return Tree::DeferredArray(leaf.array_dtype(), leaf.array_shape(),
                               std::move(reader), leaf.array_kind(), traits);
  }
  std::vector<ArrayShard> shards = leaf.shards();
  for (ArrayShard& shard : shards) {
    HF_ASSIGN_OR_RETURN(shard.reader, HoldArray(shard.array));
    shard.array = Array::Outline(shard.array.dtype(), shard.array.shape());
  }
  return Tree::ShardedArray(leaf.array_shape(), std::move(shards), traits);
}

Result<Tree> CrashDevice::Hold(const Tree& tree) {
  Tree held = Tree::Dict();
  for (size_t i = 0; i < tree.size(); ++i) {
    HF_ASSIGN_OR_RETURN(Tree leaf, HoldLeaf(tree.children()[i]));
    held.Add(tree.keys()[i], std::move(leaf));
  }
  return held;
}

}  // namespace holdfast
