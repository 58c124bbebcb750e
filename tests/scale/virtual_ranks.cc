#include "scale/virtual_ranks.h"

#include <numeric>
#include <vector>

#include "base/status_macros.h"
#include "checkpoint/save/item_parts.h"
#include "checkpoint/save/item_writer.h"

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
  const SaveOptions options = ItemOptions(save.options);
  Stopwatch watch;
  HF_ASSIGN_OR_RETURN(const SavePlan plan,
                      MakeSavePlan(tree, options, PartOfRank(save, rank)));
  FileWriter files(store, false);
  Run run(options.run);
  Stats stats;
  const ProcessPart part{
      .rank = rank, .is_primary = rank == 0, .save_id = kVirtualSaveId};
  return WriteItemPart(plan, options, part, {}, files, run, watch, stats);
}

Result<DigestFile> Finish(const VirtualSave& save, Store& store) {
  const SaveOptions sources = ItemOptions(save.options);
  FinishItemOptions finish;
  finish.ranks.resize(save.process_count);
  std::iota(finish.ranks.begin(), finish.ranks.end(), 0);
  finish.save_id = kVirtualSaveId;
  finish.use_ocdbt = sources.use_ocdbt;
  finish.write_digests = sources.write_digests;
  finish.now_ns = sources.now_ns;
  finish.random_hex = sources.random_hex;
  FileWriter files(store, false);
  HF_RETURN_IF_ERROR(FinishItemParts(finish, files));
  if (finish.write_digests) HF_RETURN_IF_ERROR(files.WriteDigests());
  return files.digests();
}

}  // namespace holdfast::testing
