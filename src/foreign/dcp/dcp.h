// Checkpoints of torch.distributed.checkpoint (`.metadata`, `*.distcp`), and of
// Megatron's torch_dist, which adds metadata.json and, in older versions,
// common.pt.
//
// Tensors are read in place; only inert values are unpickled. Names and key
// paths are the planner's ("model.layers.0.w"). An object that is a number, a
// string, bytes, None or an empty container is a leaf of that kind; any other
// object is a kObject. Megatron's objects are all kObject, under their unique
// key, and its common state is the leaf "common_state".
//
// Thread-safety: as holdfast/checkpoint.h.
// Errors: as dcp_metadata.h, and DataLoss for records that overlap. An error of
// one leaf (a missing or truncated file, a record that does not hold what
// `.metadata` says) is that leaf's `problem`.
#pragma once

#include <memory>
#include <string>

#include "holdfast/checkpoint.h"
#include "stores/place/place.h"

namespace holdfast {

// The leaf of Megatron's common state.
inline constexpr std::string_view kCommonStateLeaf = "common_state";

// Returns whether a record with these bytes is read as a plain value (None, a
// number, a string, an empty container) instead of an object.
bool IsReadAsValue(std::string_view torch_file);

Result<std::unique_ptr<Checkpoint>> OpenDcp(const Place& directory,
                                            const OpenOptions& options = {});

}  // namespace holdfast
