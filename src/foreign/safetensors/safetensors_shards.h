// Models that torch's distributed checkpoint writes as safetensors, each
// process its own parts of the tensors in its own files,
// shard-00002-model-00001-of-00001.safetensors. Where a part lies in its tensor
// is in the file's metadata,
//
//   "DCP_SHARDING_INFO": "{tensor: {\"saved_offsets\": [3, 0]}, ...}"
//
// A tensor is as large as its parts say together; the format has no other word
// of it, nor of how many processes there were.
//
// Thread-safety: pure functions. Units: elements.
// Errors: DataLoss, naming the tensor.
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

// Takes a file's metadata about it, and drops it from them, for it is not true
// of the tensors that are put together. Nullopt: its tensors are whole.
Result<std::optional<ShardOrigins>> TakeShardOrigins(
    std::map<std::string, std::string>& metadata);

// Where the entry lies in its tensor.
Result<Box> ShardBox(const SafetensorsEntry& entry,
                     const ShardOrigins& origins);

// Makes of the leaf of an entry that of its tensor, so far as it is known.
Status PlaceShard(const Box& box, ExtentLeaf& leaf);
// Puts the leaf of another entry to that of the tensor.
Status JoinShard(ExtentLeaf part, const Box& box, ExtentLeaf& tensor);
// Sets the leaf's `problem` when its parts leave some of it out.
void CheckIsCovered(ExtentLeaf& leaf);

// FailedPrecondition for a file beside which lie shards of others.
Status CheckIsNoShard(const Place& file);

}  // namespace holdfast
