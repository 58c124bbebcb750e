#include "orbax/handlers/sharded_read.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "ground/base/status_macros.h"
#include "orbax/handlers/limited_runs.h"

namespace holdfast {
namespace {

// Formats a domain as TensorStore does. `mark` follows bounds that may grow.
std::string DomainText(const Box& box, const char* mark) {
  if (box.shape.empty()) return "{ }";
  std::string text = "{ ";
  for (size_t d = 0; d < box.shape.size(); ++d) {
    if (d > 0) text += ", ";
    text += "[" + std::to_string(box.origin[d]) + ", " +
            std::to_string(box.origin[d] + box.shape[d]) + mark + ")";
  }
  return text + " }";
}

// Returns a read for each distinct box of the parameter.
Result<std::vector<BoxRead>> ReadsOf(const ParamArrays& params, size_t param,
                                     const ShardedWish& wish) {
  const Shape& stored = params.shape(param);
  const Shape shape = wish.shape.value_or(stored);
  HF_ASSIGN_OR_RETURN(const std::vector<DeviceShard> shards,
                      ShardBoxes(wish.sharding, shape));
  HF_RETURN_IF_ERROR(CheckRestoreShape(
      shape, stored, wish.strict, shards.front().origin, shards.front().shape));
  std::vector<BoxRead> reads;
  for (const DeviceShard& shard : shards) {
    if (shard.replica_id != 0) continue;
    reads.push_back({param, {shard.origin, shard.shape}, wish.dtype});
  }
  return reads;
}

// Reads the boxes in runs that fit below the limit.
Result<std::vector<Array>> ReadLimited(const ParamArrays& params,
                                       std::span<const BoxRead> reads,
                                       LimitInFlightBytes* limiter) {
  std::vector<Array> arrays;
  HF_RETURN_IF_ERROR(ForEachRunBelow(
      limiter, reads.size(),
      [&](size_t i) { return ReadFootprintBytes(params, reads[i]); },
      [&](size_t first, size_t last) -> Status {
        HF_ASSIGN_OR_RETURN(
            std::vector<Array> run,
            ReadBoxes(params, reads.subspan(first, last - first)));
        std::ranges::move(run, std::back_inserter(arrays));
        return Status();
      }));
  return arrays;
}

Tree LeafOf(const ShardedWish& wish, const Shape& shape,
            std::vector<ArrayShard> shards) {
  ArrayTraits traits;
  traits.sharding_json = ShardingToJson(wish.sharding);
  traits.prng_impl = wish.prng_impl;
  const bool is_whole = shards.size() == 1;
  if (!is_whole) traits.write_shape = shards.front().array.shape();
  auto shared = std::make_shared<const ArrayTraits>(std::move(traits));
  if (is_whole) {
    return Tree::JaxArray(std::move(shards.front().array), std::move(shared));
  }
  return Tree::ShardedArray(shape, std::move(shards), std::move(shared));
}

}  // namespace

Status NoShardingError() {
  return InvalidArgumentError(
      "Sharding of jax.Array cannot be None. Provide `mesh` and `mesh_axes` OR "
      "`sharding`");
}

Status CheckRestoreShape(const Shape& wanted, const Shape& stored, bool strict,
                         const Shape& origin, const Shape& extents) {
  if (strict && wanted != stored) {
    return InvalidArgumentError(
        "Requested shape: " + ShapeToString(wanted) +
        " is not compatible with the stored shape: " + ShapeToString(stored) +
        ". Truncating/padding is disabled. To enable it, set `strict=False` in "
        "`ArrayRestoreArgs` for any array in v0 API or "
        "`enable_padding_and_truncation=True` in `ArrayOptions.Loading` in v1 "
        "API.");
  }
  if (wanted.size() == stored.size()) return Status();
  return InvalidArgumentError(
      "Cannot intersect index domain " + DomainText(BoxOf(stored), "*") +
      " with index domain " + DomainText({origin, extents}, "") +
      ": Ranks do not match");
}

Result<std::vector<Tree>> ReadSharded(
    const ParamArrays& params, std::span<const ShardedWish> wishes,
    const std::shared_ptr<LimitInFlightBytes>& limiter) {
  std::vector<BoxRead> reads;
  for (size_t i = 0; i < wishes.size(); ++i) {
    HF_ASSIGN_OR_RETURN(const std::vector<BoxRead> own,
                        ReadsOf(params, i, wishes[i]));
    reads.insert(reads.end(), own.begin(), own.end());
  }
  HF_ASSIGN_OR_RETURN(std::vector<Array> arrays,
                      ReadLimited(params, reads, limiter.get()));
  std::vector<Tree> values;
  size_t next = 0;
  for (size_t i = 0; i < wishes.size(); ++i) {
    std::vector<ArrayShard> shards;
    for (; next < reads.size() && reads[next].param == i; ++next) {
      shards.push_back({reads[next].box.origin, std::move(arrays[next])});
    }
    values.push_back(LeafOf(wishes[i],
                            wishes[i].shape.value_or(params.shape(i)),
                            std::move(shards)));
  }
  return values;
}

}  // namespace holdfast
