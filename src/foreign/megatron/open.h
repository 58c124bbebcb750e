// A Megatron zarr checkpoint as holdfast's other checkpoints are: leaves, boxes
// of arrays, objects as torch files.
//
// Leaves by name: the tensors by key (a key with dots is one key), an object
// leaf for each ShardedObject by its unique_key, and the object leaf
// "common_state" for common.pt. "<key>.sync" directories are left out.
// Thread-safety, units: as holdfast/checkpoint.h.
// Errors: as holdfast/checkpoint.h, in its words: Megatron's class and code are
// left out. A damaged array is its leaf's `problem`.
#pragma once

#include <memory>
#include <string>

#include "engine/checkpoint/verify_share.h"
#include "holdfast/checkpoint.h"
#include "stores/place/place.h"

namespace holdfast::megatron {

// The name of common.pt's leaf.
inline constexpr std::string_view kCommonLeaf = "common_state";

// Reads metadata only. The OpenOptions that count: missing_chunks (kAsRecorded
// as AbsentChunks has it) and stored_sizes. FailedPrecondition for another back
// end or version, saying what it is and how to convert it.
Result<std::unique_ptr<Checkpoint>> OpenMegatronZarr(
    const Place& place, const OpenOptions& options = {});

// Reads this process's share of the existing chunks and objects. A missing one
// is damage; it is found from the listing, however large the metadata says an
// array is. The format has no checksums, which a note says.
Result<ShareReport> VerifyMegatronZarr(const Place& place,
                                       const OpenOptions& options = {},
                                       const RunOptions& run = {},
                                       WorkShare share = WorkShare(0, 1));

}  // namespace holdfast::megatron
