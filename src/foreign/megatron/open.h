// Opens a Megatron zarr checkpoint like holdfast's other checkpoints: leaves,
// boxes of arrays, objects as torch files.
//
// Leaves are named as follows: the tensors by key (a key with dots is one key),
// an object leaf for each ShardedObject by its unique_key, and the object leaf
// "common_state" for common.pt. "<key>.sync" directories are left out.
// Thread-safety, units: as holdfast/checkpoint.h.
// Errors: as holdfast/checkpoint.h, worded like those: Megatron's class and
// code are left out. A damaged array is reported as its leaf's `problem`.
#pragma once

#include <memory>
#include <string>

#include "engine/checkpoint/verify_share.h"
#include "holdfast/checkpoint.h"
#include "stores/place/place.h"

namespace holdfast::megatron {

// The name of common.pt's leaf.
inline constexpr std::string_view kCommonLeaf = "common_state";

// Reads metadata only. Uses two of the OpenOptions: missing_chunks (kAsRecorded
// as in AbsentChunks) and stored_sizes. FailedPrecondition for another back end
// or version, saying what it is and how to convert it.
Result<std::unique_ptr<Checkpoint>> OpenMegatronZarr(
    const Place& place, const OpenOptions& options = {});

// Reads this process's share of the existing chunks and objects. A missing one
// is damage, found from the listing, however large the metadata says an array
// is. The format has no checksums, which a note reports.
Result<ShareReport> VerifyMegatronZarr(const Place& place,
                                       const OpenOptions& options = {},
                                       const RunOptions& run = {},
                                       WorkShare share = WorkShare(0, 1));

}  // namespace holdfast::megatron
