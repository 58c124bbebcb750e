// A Megatron zarr checkpoint as holdfast's other checkpoints are: leaves, boxes
// of arrays, objects as torch files.
//
// Leaves by name: the tensors by key (a key with dots is one key), an object
// leaf for each ShardedObject by its unique_key, and the object leaf
// "common_state" for common.pt. "<key>.sync" directories are none.
// Thread-safety, units: as holdfast/checkpoint.h.
// Errors: as holdfast/checkpoint.h, in its words: Megatron's class and code are
// left out. A damaged array is its leaf's `problem`.
#pragma once

#include <memory>
#include <string>

#include "holdfast/checkpoint.h"

namespace holdfast::megatron {

// The name of common.pt's leaf.
inline constexpr std::string_view kCommonLeaf = "common_state";

// Reads metadata only. Of OpenOptions: missing_chunks (kAsRecorded as
// AbsentChunks has it) and stored_sizes. FailedPrecondition for another back
// end or version, saying what it is and how to convert it.
Result<std::unique_ptr<Checkpoint>> OpenMegatronZarr(
    const std::string& path, const OpenOptions& options = {});

// Reads every chunk and object. The format has no checksums, which a note says.
Result<VerifyReport> VerifyMegatronZarr(const std::string& path,
                                        const OpenOptions& options = {},
                                        const RunOptions& run = {});

}  // namespace holdfast::megatron
