#include "orbax/pytree/leaf_placement.h"

#include <set>
#include <utility>

#include "engine/format/directory_names.h"
#include "ground/base/status_macros.h"
#include "holdfast/shard_plan.h"
#include "holdfast/sharding.h"
#include "orbax/handlers/sharded_read.h"
#include "stores/place/directory_ops.h"

namespace holdfast {

Result<std::vector<Box>> DistinctBoxes(
    const Sharding& sharding, const Shape& shape,
    const MultiprocessingOptions& processes) {
  std::vector<DeviceShard> shards;
  if (processes.group == nullptr || processes.group->size() == 1) {
    HF_ASSIGN_OR_RETURN(shards, ShardBoxes(sharding, shape));
  } else {
    HF_ASSIGN_OR_RETURN(const ShardPlanner planner,
                        ShardPlanner::OfRank(sharding, processes.devices,
                                             processes.group->rank()));
    HF_ASSIGN_OR_RETURN(shards, planner.Boxes(shape));
  }
  std::vector<Box> boxes;
  std::set<Shape> origins;
  for (DeviceShard& shard : shards) {
    if (!origins.insert(shard.origin).second) continue;
    boxes.push_back({std::move(shard.origin), std::move(shard.shape)});
  }
  return boxes;
}

Result<std::optional<Shape>> WantedShape(const AnyRestoreArgs& args) {
  HF_RETURN_IF_ERROR(CheckRestoreArgs(args));
  const ArrayRestoreArgs* array_args = AsArrayRestoreArgs(args);
  if (array_args == nullptr) return std::optional<Shape>();
  return array_args->global_shape ? array_args->global_shape
                                  : array_args->shape;
}

Result<Placer::NamedSharding> Placer::RecordedSharding(
    const LeafInfo& leaf) const {
  if (leaf.sharding_json.empty()) {
    const std::string file =
        source_.directory() + "/" + std::string(kShardingFile);
    if (!IsThere(holdfast::Place(file))) return NoShardingError();
    return InvalidArgumentError("NOT_FOUND: Error reading local file \"" +
                                file + "\": there is no sharding of leaf " +
                                leaf.name);
  }
  HF_ASSIGN_OR_RETURN(Sharding sharding, ShardingFromJson(leaf.sharding_json));
  return NamedSharding{std::move(sharding), leaf.sharding_json, true};
}

Result<Placer::NamedSharding> Placer::ShardingFor(const LeafInfo& leaf,
                                                  const AnyRestoreArgs& args) {
  const ArrayRestoreArgs* array_args = AsArrayRestoreArgs(args);
  std::optional<Sharding> sharding;
  if (array_args != nullptr) sharding = WantedSharding(*array_args);
  if (!sharding) return RecordedSharding(leaf);
  return NamedSharding{*sharding, ShardingToJson(*sharding), false};
}

Result<std::shared_ptr<const LeafPlacement>> Placer::Place(
    const LeafInfo& leaf, const AnyRestoreArgs& args) {
  HF_ASSIGN_OR_RETURN(std::optional<Shape> wanted, WantedShape(args));
  HF_ASSIGN_OR_RETURN(NamedSharding named, ShardingFor(leaf, args));
  const Shape& shape = wanted ? *wanted : leaf.shape;
  Shape write_shape;
  if (named.is_recorded && shape == leaf.shape && leaf.write_shape) {
    write_shape = *leaf.write_shape;
  }
  const std::string key = named.json + ShapeToString(shape) +
                          ShapeToString(write_shape) + leaf.prng_impl;
  std::shared_ptr<const LeafPlacement>& known = placements_[key];
  if (known != nullptr) return known;
  auto placement = std::make_shared<LeafPlacement>();
  placement->shape = shape;
  HF_ASSIGN_OR_RETURN(placement->boxes,
                      DistinctBoxes(named.sharding, shape, processes_));
  if (write_shape.empty() && !placement->boxes.empty()) {
    write_shape = placement->boxes.front().shape;
  }
  if (write_shape == shape) write_shape.clear();
  placement->traits = std::make_shared<const ArrayTraits>(
      ArrayTraits{std::move(named.json), leaf.prng_impl, write_shape});
  known = std::move(placement);
  return known;
}

}  // namespace holdfast
