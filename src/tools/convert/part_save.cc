#include "tools/convert/part_save.h"

#include <algorithm>

#include "engine/save/save_item.h"
#include "ground/base/coding.h"
#include "ground/base/status_macros.h"
#include "ground/base/string_coding.h"
#include "ground/base/xxh64.h"
#include "ground/tree/key_path.h"

namespace holdfast {

int64_t PartCount(uint64_t bytes, uint64_t part_bytes) {
  if (part_bytes == 0 || bytes <= part_bytes) return 1;
  const uint64_t count = (bytes - 1) / part_bytes + 1;
  return static_cast<int64_t>(
      std::min<uint64_t>(count, static_cast<uint64_t>(kSavePartsMax)));
}

Result<std::vector<SavePlan>> PlanSaveParts(const Tree& tree,
                                            const SaveOptions& options,
                                            uint64_t part_bytes) {
  PlanPart part{.is_partial = true};
  std::vector<SavePlan> plans(1);
  HF_ASSIGN_OR_RETURN(plans[0], MakeSavePlan(tree, options, part));
  part.count = PartCount(plans[0].decoded_bytes, part_bytes);
  if (part.count == 1) return plans;
  const std::shared_ptr<const SaveOptions> shared = plans[0].options;
  plans.resize(part.count);
  for (SavePlan& plan : plans) {
    HF_ASSIGN_OR_RETURN(plan, MakeSavePlan(tree, *shared, part));
    plan.options = shared;  // one copy for all
    part.is_primary = false;
    ++part.index;
  }
  return plans;
}

Result<SaveResult> WriteSavePart(const std::string& directory,
                                 const SavePlan& plan, int64_t index) {
  const ProcessPart part{.rank = index, .is_primary = index == 0};
  return SavePlannedItem(Place(directory), plan, &part, Stopwatch());
}

uint64_t SavePlanHash(const SavePlan& plan) {
  const SaveOptions& options = *plan.options;
  Xxh64 hash;
  const auto add = [&hash](std::string_view text) {
    std::string bytes;
    PutString(bytes, text);
    hash.Update(bytes);
  };
  std::string numbers;
  PutVarint(numbers, static_cast<uint64_t>(options.zarr_format));
  PutVarint(numbers, options.use_ocdbt);
  PutVarint(numbers, static_cast<uint64_t>(options.compression));
  PutVarint(numbers, options.chunk_bytes);
  PutVarint(numbers, options.write_digests);
  PutVarint(numbers, options.sync);
  add(numbers);
  add(options.item_custom_metadata);
  if (!options.item_documents.empty()) add(options.item_documents);
  add(options.value_metadata_tree);
  for (const FlatLeaf& leaf : plan.leaves) {
    add(KeyPathRepr(leaf.path));
    add(leaf.value_type);
    if (!leaf.leaf->is_leaf()) continue;
    const LeafKind kind = leaf.leaf->leaf_kind();
    if (kind == LeafKind::kScalar) add(leaf.leaf->scalar().view());
    if (kind == LeafKind::kString) add(leaf.leaf->text());
    if (kind != LeafKind::kArray) continue;
    add(leaf.leaf->sharding_json());
    add(leaf.leaf->array_traits().prng_impl);
    const bool is_here =
        leaf.leaf->reader() == nullptr && !leaf.leaf->is_sharded();
    if (!is_here) continue;
    const Array& array = leaf.leaf->array();
    add({array.view().data, array.byte_count()});
  }
  for (const PlannedArray& array : plan.arrays) {
    add(array.name);
    add(array.layout->metadata_text);
    add(ShapeToString(array.layout->write_shape));
  }
  return hash.Digest();
}

}  // namespace holdfast
