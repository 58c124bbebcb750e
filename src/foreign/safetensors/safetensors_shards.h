// Models that torch's distributed checkpoint writes as safetensors. Each
// process writes its own parts of the tensors to its own files, such as
// shard-00002-model-00001-of-00001.safetensors. The file's metadata has the
// place of each part in its tensor:
//
//   "DCP_SHARDING_INFO": "{tensor: {\"saved_offsets\": [3, 0]}, ...}"
//
// The format does not record the size of a tensor, which follows from its
// parts, or the number of processes.
//
// Thread-safety: pure functions. Units: elements.
// Errors: DataLoss, with the name of the tensor.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "foreign/extents/extent_checkpoint.h"
#include "foreign/safetensors/safetensors_header.h"
#include "ground/tensor/box.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"
#include "stores/place/place.h"

namespace holdfast {

using ShardOrigins = std::unordered_map<std::string, Shape>;

// Parses a file's sharding information, and removes it from `metadata`, because
// it does not apply to the assembled tensors. Returns nullopt if the file's
// tensors are complete.
Result<std::optional<ShardOrigins>> TakeShardOrigins(
    std::map<std::string, std::string>& metadata);

// Returns the box of the entry in its tensor.
Result<Box> ShardBox(const SafetensorsEntry& entry,
                     const ShardOrigins& origins);

// Turns the leaf of an entry into the leaf of its tensor, as far as the tensor
// is known.
Status PlaceShard(const Box& box, ExtentLeaf& leaf);
// Adds the leaf of another entry to the tensor's leaf.
Status JoinShard(ExtentLeaf part, const Box& box, ExtentLeaf& tensor);
// Sets the leaf's `problem` if its parts do not cover it.
void CheckIsCovered(ExtentLeaf& leaf);

// Returns FailedPrecondition if other processes' shards are next to `file`.
Status CheckIsNoShard(const Place& file);

}  // namespace holdfast
