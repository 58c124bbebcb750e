// FormatTarget for Megatron's zarr checkpoints.
//
// Arrays are stored by name, uncompressed, cut as TargetLeaf::chunk_shape says,
// or along the leading axes into equal chunks of at most chunk_bytes_target.
// Objects that are named as object shards become their files; "common_state"
// becomes common.pt. Every other small value (scalars, strings, None, empties)
// is stored by name in a dict in common.pt, for Megatron's readers, and exactly
// in the sidecar. Leaves whose names cannot be directories get other names,
// which the sidecar records.
// Thread-safety, errors: as foreign/extents/target.h.
#pragma once

#include <memory>

#include "foreign/extents/target.h"

namespace holdfast {

std::unique_ptr<FormatTarget> MakeMegatronZarrTarget();

}  // namespace holdfast
