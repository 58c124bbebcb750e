// FormatTarget for Megatron's zarr checkpoints.
//
// Arrays are stored by name, uncompressed, in chunks of
// TargetLeaf::chunk_shape, or else in equal chunks of at most
// chunk_bytes, which divide the leading axes.
//
// Objects that have names of object shards become their files; "common_state"
// becomes common.pt. Every other small value (a scalar, a string, None, an
// empty container) is stored twice: by name in a dict in common.pt, for
// Megatron's readers, and exactly in the sidecar.
//
// A leaf whose name cannot be that of a directory gets another name, which the
// sidecar records.
//
// Thread-safety, errors: as foreign/extents/target.h.
#pragma once

#include <memory>

#include "foreign/extents/target.h"

namespace holdfast {

std::unique_ptr<FormatTarget> MakeMegatronZarrTarget();

}  // namespace holdfast
