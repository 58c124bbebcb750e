// Models that torch's distributed checkpoint writes as safetensors: each
// process writes its own parts of the tensors to its own files,
// shard-00002-model-00001-of-00001.safetensors. The place of a part in its
// tensor is in the file's metadata:
//
//   "DCP_SHARDING_INFO": "{tensor: {\"saved_offsets\": [3, 0]}, ...}"
//
// The size of a tensor follows from its parts; the format records neither it
// nor the number of processes.
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

// Parses the sharding information of a file, and removes it from the metadata,
// since it does not apply to the assembled tensors. Nullopt if the file's
// tensors are complete.
Result<std::optional<ShardOrigins>> TakeShardOrigins(
    std::map<std::string, std::string>& metadata);

// The box of the entry in its tensor.
Result<Box> ShardBox(const SafetensorsEntry& entry,
                     const ShardOrigins& origins);

// Turns the leaf of an entry into that of its tensor, as far as that is known.
Status PlaceShard(const Box& box, ExtentLeaf& leaf);
// Adds the leaf of another entry to that of the tensor.
Status JoinShard(ExtentLeaf part, const Box& box, ExtentLeaf& tensor);
// Sets the leaf's `problem` when its parts do not cover it.
void CheckIsCovered(ExtentLeaf& leaf);

// FailedPrecondition for a file with shards of other processes next to it.
Status CheckIsNoShard(const Place& file);

}  // namespace holdfast
