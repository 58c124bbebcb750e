// Opens a Megatron zarr checkpoint like holdfast's other checkpoints, with
// leaves, boxes of arrays, and objects as torch files.
//
// The leaves are the tensors, named by key (a key with dots is one key), an
// object leaf for each ShardedObject, named by its unique_key, and the object
// leaf "common_state" for common.pt. "<key>.sync" directories are left out.
//
// Thread-safety, units: as holdfast/checkpoint.h.
// Errors: as holdfast/checkpoint.h, and with the same wording, without
// Megatron's class and code. A damaged array is reported as its leaf's
// `problem`.
#pragma once

#include <memory>
#include <string>

#include "engine/checkpoint/verify_share.h"
#include "holdfast/checkpoint.h"
#include "stores/place/place.h"

namespace holdfast::megatron {

// The name of common.pt's leaf.
inline constexpr std::string_view kCommonLeaf = "common_state";

// Opens the checkpoint at `place`, reading only metadata. Two OpenOptions are
// used: missing_chunks (kAsRecorded as in AbsentChunks) and stored_sizes.
// FailedPrecondition for another back end or version, with its name and how to
// convert the checkpoint.
Result<std::unique_ptr<Checkpoint>> OpenMegatronZarr(
    const Place& place, const OpenOptions& options = {});

// Reads this process's share of the existing chunks and objects. A missing
// chunk or object is damage. Missing chunks are found by listing, so the work
// is limited even if the metadata claims a huge array. A note says that the
// format has no checksums.
Result<ShareReport> VerifyMegatronZarr(const Place& place,
                                       const OpenOptions& options = {},
                                       const RunOptions& run = {},
                                       WorkShare share = WorkShare(0, 1));

}  // namespace holdfast::megatron
