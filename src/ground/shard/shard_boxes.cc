#include "ground/base/status_macros.h"
#include "holdfast/shard_plan.h"
#include "holdfast/sharding.h"

namespace holdfast {

Result<std::vector<DeviceShard>> ShardBoxes(const Sharding& sharding,
                                            const Shape& array_shape) {
  HF_ASSIGN_OR_RETURN(const ShardPlanner planner,
                      ShardPlanner::OfAll(sharding));
  return planner.Boxes(array_shape);
}

}  // namespace holdfast
