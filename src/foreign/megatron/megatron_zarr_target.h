// FormatTarget of Megatron's zarr checkpoints.
//
// Arrays by name, uncompressed, cut as TargetLeaf::chunk_shape says, or along
// the leading axes into equal chunks of at most chunk_bytes_target. Objects
// named as object shards are their files; "common_state" is common.pt.
// Everything else that is small (scalars, strings, None, empties) is in a dict
// by name in common.pt, for Megatron's readers, and exactly in the sidecar.
// Names that cannot be directories get others, which the sidecar tells apart.
// Thread-safety, errors: as foreign/extents/target.h.
#pragma once

#include <memory>

#include "foreign/extents/target.h"

namespace holdfast {

std::unique_ptr<FormatTarget> MakeMegatronZarrTarget();

}  // namespace holdfast
