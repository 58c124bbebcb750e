#include "scale/virtual_ranks.h"

#include <vector>

#include "engine/save/item_parts.h"
#include "engine/save/item_writer.h"
#include "engine/save/save_options.h"
#include "ground/base/status_macros.h"

namespace holdfast::testing {

Result<SpreadLeaves> SpreadLeaves::OfRank(const Sharding& sharding,
                                          const DeviceProcesses& processes,
                                          int64_t rank,
                                          const ReplicaOptions& options) {
  HF_ASSIGN_OR_RETURN(ShardPlanner planner,
                      ShardPlanner::OfRank(sharding, processes, rank));
  SpreadLeaves leaves(std::move(planner), options);
  leaves.sharding_json_ = ShardingToJson(sharding);
  return leaves;
}

Result<Tree> SpreadLeaves::Leaf(const Array& whole) {
  const int64_t element_bytes = DTypeBytes(whole.dtype());
  HF_ASSIGN_OR_RETURN(const WriteLayout layout,
                      planner_.Layout(whole.shape(), element_bytes, options_));
  HF_ASSIGN_OR_RETURN(const std::vector<DeviceShare> shares,
                      planner_.Shares(whole.shape(), layout));
  std::shared_ptr<const ArrayTraits>& traits = traits_[layout.write_shape];
  if (traits == nullptr) {
    traits = std::make_shared<const ArrayTraits>(ArrayTraits{
        .sharding_json = sharding_json_, .write_shape = layout.write_shape});
  }
  std::vector<ArrayShard> shards;
  for (const DeviceShare& share : shares) {
    if (!share.write_origin) continue;
    const Box box{*share.write_origin, layout.write_shape};
    shards.push_back(
        {box.origin, Array::Borrow(Subview(whole.view(), box), nullptr)});
  }
  return Tree::ShardedArray(whole.dtype(), whole.shape(), std::move(shards),
                            traits);
}

PlanPart PartOfRank(const VirtualSave& save, int64_t rank) {
  return {.is_partial = true,
          .is_primary = rank == 0,
          .index = rank,
          .count = save.process_count};
}

Status SaveRank(const VirtualSave& save, int64_t rank, const Tree& tree,
                Store& store) {
  const Stopwatch begun;
  HF_ASSIGN_OR_RETURN(const SavePlan plan,
                      MakeSavePlan(tree, save.options, PartOfRank(save, rank)));
  FileWriter files(store, false);
  SaveCall call(plan, begun);
  const ProcessPart part{
      .rank = rank, .is_primary = rank == 0, .save_id = kVirtualSaveId};
  return WriteItem(&part, files, call);
}

Result<DigestFile> Finish(const VirtualSave& save, Store& store) {
  const FinishItemOptions finish = FinishOptionsOf(
      WithSources(save.options), kVirtualSaveId, save.process_count);
  FileWriter files(store, false);
  HF_RETURN_IF_ERROR(FinishItemParts(finish, files));
  if (finish.write_digests) HF_RETURN_IF_ERROR(files.WriteDigests());
  return files.digests();
}

}  // namespace holdfast::testing
