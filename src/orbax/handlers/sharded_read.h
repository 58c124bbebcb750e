// A jax.Array leaf from the boxes that its sharding makes of it.
//
// Thread-safety: one call a ParamArrays from any thread. Ownership: the trees
// own their memory. Units: elements; bytes where named so.
// Errors: those of ArrayHandler::Deserialize.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "holdfast/sharding.h"
#include "orbax/handlers/param_reader.h"

namespace holdfast {

// The wanted form of one parameter.
struct ShardedWish {
  Sharding sharding;
  std::optional<Shape> shape;  // of the whole; absent: as stored
  bool strict = true;          // the shape must be the stored one
  std::optional<DType> dtype;
  std::string prng_impl;
};

// The arguments give no sharding, and none is recorded.
Status NoShardingError();

// One a parameter. At most limiter->bytes_max() bytes of chunks are read at
// once; a null limiter means no bound.
Result<std::vector<Tree>> ReadSharded(
    const ParamArrays& params, std::span<const ShardedWish> wishes,
    const std::shared_ptr<LimitInFlightBytes>& limiter);

}  // namespace holdfast
