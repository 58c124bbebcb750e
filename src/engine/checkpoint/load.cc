// LoadCheckpoint: opens, chooses leaves, restores all arrays in one plan, and
// rebuilds the tree.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "engine/checkpoint/opened_checkpoint.h"
#include "engine/checkpoint/still_there.h"
#include "engine/restore/leaf_request.h"
#include "engine/restore/restore.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/tree/flatten.h"
#include "ground/tree/value_type.h"

namespace holdfast {
namespace {

// The wanted leaves of one item, and the memory for the arrays among them.
struct ItemLoad {
  const Item* item;
  std::vector<const StoredLeaf*> leaves;
  std::vector<Array> arrays;  // empty Array for leaves without a layout
};

// Appends the arrays that must be read to `targets`. Their memory is allocated
// later.
Status AddTargets(const ItemLoad& load, std::vector<RestoreTarget>& targets) {
  for (const StoredLeaf* leaf : load.leaves) {
    HF_RETURN_IF_ERROR(leaf->problem);
    if (leaf->layout != nullptr)
      targets.push_back({load.item, leaf->array(), {}, {}});
  }
  return Status();
}

// Allocates every target's memory. ItemLoad::arrays own it; they get one array
// for each wanted leaf.
Status AllocateArrays(std::vector<ItemLoad>& loads,
                      std::vector<RestoreTarget>& targets) {
  size_t next = 0;
  for (ItemLoad& load : loads) {
    for (const StoredLeaf* leaf : load.leaves) {
      Array& array = load.arrays.emplace_back();
      if (leaf->layout == nullptr) continue;
      const zarr::ArrayMetadata& metadata = leaf->layout->format.metadata;
      HF_ASSIGN_OR_RETURN(array,
                          Array::Allocate(metadata.dtype, metadata.shape));
      targets[next++].view = array.mutable_view();
    }
  }
  return Status();
}

// Makes the traits of jax arrays; leaves with the same layout share one object.
class TraitsPool {
 public:
  std::shared_ptr<const ArrayTraits> Get(const StoredLeaf& leaf) {
    const Shape& shape = leaf.layout->format.metadata.shape;
    const Shape* write_shape =
        leaf.info.write_shape ? &*leaf.info.write_shape : &shape;
    if (*write_shape == shape) write_shape = &own_shape_;
    if (last_ == nullptr || last_->sharding_json != leaf.sharding_json ||
        last_->prng_impl != leaf.info.prng_impl ||
        last_->write_shape != *write_shape) {
      last_ = Find(
          {std::string(leaf.sharding_json), leaf.info.prng_impl, *write_shape});
    }
    return last_;
  }

 private:
  std::shared_ptr<const ArrayTraits> Find(ArrayTraits traits) {
    const std::string key = traits.sharding_json + '\0' + traits.prng_impl +
                            '\0' + ShapeToString(traits.write_shape);
    std::shared_ptr<const ArrayTraits>& made = made_[key];
    if (!made) made = std::make_shared<const ArrayTraits>(std::move(traits));
    return made;
  }

  const Shape own_shape_;  // empty
  std::unordered_map<std::string, std::shared_ptr<const ArrayTraits>> made_;
  std::shared_ptr<const ArrayTraits> last_;
};

Tree LeafTree(const StoredLeaf& leaf, Array array, TraitsPool& traits) {
  if (leaf.layout == nullptr) return leaf.value;
  if (leaf.info.kind == ValueKind::kScalar) {
    Scalar scalar;
    scalar.dtype = array.dtype();
    std::memcpy(scalar.bytes.data(), array.view().data, array.byte_count());
    return Tree(scalar);
  }
  if (leaf.info.value_type != kValueTypeJaxArray) return Tree(std::move(array));
  return Tree::JaxArray(std::move(array), traits.Get(leaf));
}

ItemEntries EntriesOf(ItemLoad& load, TraitsPool& traits) {
  ItemEntries item{load.item, {}};
  item.entries.reserve(load.leaves.size());
  for (size_t i = 0; i < load.leaves.size(); ++i) {
    item.entries.push_back(
        {load.leaves[i]->path,
         LeafTree(*load.leaves[i], std::move(load.arrays[i]), traits)});
  }
  return item;
}

Result<std::vector<ItemLoad>> SelectLeaves(
    const OpenedCheckpoint& checkpoint, const std::vector<std::string>& names) {
  std::vector<ItemLoad> loads;
  std::vector<std::string_view> leaf_names;
  size_t next = 0;
  for (const std::unique_ptr<Item>& item : checkpoint.items()) {
    ItemLoad load{item.get(), {}, {}};
    for (const StoredLeaf& leaf : item->leaves()) {
      leaf_names.push_back(checkpoint.LeafName(next++));
      if (IsSelected(names, leaf_names.back())) load.leaves.push_back(&leaf);
    }
    if (!load.leaves.empty()) loads.push_back(std::move(load));
  }
  HF_RETURN_IF_ERROR(CheckNamesExist(names, leaf_names));
  return loads;
}

Result<LoadResult> LoadTree(const OpenedCheckpoint& checkpoint,
                            const LoadOptions& options) {
  Stopwatch total, watch;
  LoadResult result;
  result.notes = checkpoint.info().notes;
  HF_ASSIGN_OR_RETURN(std::vector<ItemLoad> loads,
                      SelectLeaves(checkpoint, options.names));
  std::vector<RestoreTarget> targets;
  for (const ItemLoad& load : loads) {
    HF_RETURN_IF_ERROR(AddTargets(load, targets));
  }
  Run run(options.run, RequestsInFlight(targets));
  HF_ASSIGN_OR_RETURN(RestorePlan plan, PlanRestore(std::move(targets), run));
  const uint64_t wanted_bytes = WantedBytes(plan.targets);
  HF_RETURN_IF_ERROR(MemoryNeed().Add(wanted_bytes));
  HF_RETURN_IF_ERROR(AllocateArrays(loads, plan.targets));
  result.stats.plan_seconds = watch.Lap();
  run.StartPhase("read", wanted_bytes);
  HF_RETURN_IF_ERROR(Restore(std::move(plan), run, result.stats));
  TraitsPool traits;
  std::vector<ItemEntries> items;
  for (ItemLoad& load : loads) items.push_back(EntriesOf(load, traits));
  HF_ASSIGN_OR_RETURN(result.tree, checkpoint.TreeOf(std::move(items)));
  result.stats.total_seconds = total.Lap();
  return result;
}

}  // namespace

Result<LoadResult> LoadCheckpoint(const OpenedCheckpoint& checkpoint,
                                  const LoadOptions& options) {
  return CatchBadAlloc([&]() -> Result<LoadResult> {
    Result<LoadResult> result = LoadTree(checkpoint, options);
    // A replaced item explains the failure.
    if (!result.ok()) HF_RETURN_IF_ERROR(CheckStillThere(checkpoint.items()));
    return result;
  });
}

Result<LoadResult> LoadCheckpoint(const Place& place,
                                  const LoadOptions& options) {
  return CatchBadAlloc([&]() -> Result<LoadResult> {
    Stopwatch watch;
    HF_ASSIGN_OR_RETURN(const auto checkpoint,
                        OpenedCheckpoint::Open(place, options.open));
    const double open_seconds = watch.Lap();
    HF_ASSIGN_OR_RETURN(LoadResult result,
                        LoadCheckpoint(*checkpoint, options));
    result.stats.plan_seconds += open_seconds;
    result.stats.total_seconds += open_seconds;
    return result;
  });
}

}  // namespace holdfast
