// Reads jax.Array leaves, divided into the boxes of their sharding.
//
// Thread-safety: one call per ParamArrays, from any thread. Ownership: the
// trees own their memory. Units: elements; bytes where named so.
// Errors: those of ArrayHandler::Deserialize.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "holdfast/sharding.h"
#include "orbax/handlers/param_reader.h"

namespace holdfast {

// The caller's request for a parameter.
struct ShardedWish {
  Sharding sharding;
  std::optional<Shape> shape;  // of the complete array; absent: as stored
  bool strict = true;          // the shape must equal the stored shape
  std::optional<DType> dtype;
  std::string prng_impl;
};

// Returns the error for arguments without a sharding if none is recorded.
Status NoShardingError();

// Returns one tree per parameter. Reads at most limiter->bytes_max() bytes of
// chunks concurrently; a null limiter means no limit.
Result<std::vector<Tree>> ReadSharded(
    const ParamArrays& params, std::span<const ShardedWish> wishes,
    const std::shared_ptr<LimitInFlightBytes>& limiter);

}  // namespace holdfast
