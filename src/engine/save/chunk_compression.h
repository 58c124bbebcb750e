// Chooses how the chunks of one array are compressed when a checkpoint is saved
// with a Compression.
//
// Thread-safety: pure.
#pragma once

#include "formats/zarr/format/metadata.h"
#include "holdfast/dtype.h"
#include "holdfast/options.h"
#include "holdfast/shape.h"

namespace holdfast {

// Returns the compression of an array's chunks. `chunk_shape` is the shape of
// the unit that is compressed: a chunk, or the inner chunk of a shard.
zarr::Compression ChunkCompression(Compression compression, DType dtype,
                                   const Shape& chunk_shape);

}  // namespace holdfast
