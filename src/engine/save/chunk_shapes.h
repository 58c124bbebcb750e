// Chooses how an array is divided into chunks.
//
// ChooseChunkShape and CalculateChunkByteSize return what Orbax 0.12.8 returns
// (_src/arrays/subchunking.py, _src/serialization/tensorstore_utils.py),
// including error messages. ChooseRowChunks is holdfast's own default: chunks
// that are runs of complete rows, so that each is one contiguous range of a
// C-order array.
// Thread-safety: pure functions. Units: shapes in elements, sizes in bytes.
// Errors: InvalidArgument.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "holdfast/dtype.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"

namespace holdfast {

// Returns a chunk shape that divides `write_shape` and needs at most
// `target_byte_size` bytes, if that is given. Splits the `shard_axes` down to
// one element each first, then repeatedly the largest dimension that is already
// split, then any dimension.
Result<Shape> ChooseChunkShape(const Shape& global_shape,
                               const Shape& write_shape, DType dtype,
                               std::optional<int64_t> target_byte_size,
                               const std::vector<int64_t>& shard_axes = {});

// Returns the target size for ChooseChunkShape, such that a chunk fits into a
// data file. A `data_file_bytes_target` of 0 means files without a limit.
std::optional<int64_t> CalculateChunkByteSize(
    const Shape& write_shape, DType dtype,
    std::optional<int64_t> chunk_byte_size, int64_t data_file_bytes_target);

// The unit of writing (a stored object) and of reading (a chunk in it).
struct ChunkShapes {
  Shape write;
  Shape read;
};
struct ChunkShapesRequest {
  Shape global_shape;
  Shape shard_shape;
  DType dtype = DType::kUint8;
  bool use_zarr3 = false;
  std::optional<Shape>
      write_chunk_shape;  // empty: as if absent, here and below
  std::optional<Shape> read_chunk_shape;
  std::optional<int64_t> chunk_byte_size;  // used if both are absent
};
// Applies Orbax's older rules, with their messages: `Zarr3 is not enabled when
// ...`, `write_chunk_shape=... is not a divisor of shard_shape=...`.
Result<ChunkShapes> ChooseChunkShapes(const ChunkShapesRequest& request);

// Returns true if the ranks are equal and every extent of `dividing_shape`
// divides its counterpart.
bool ValidateDivisibleShapes(const Shape& divided_shape,
                             const Shape& dividing_shape);

// Returns chunks of at most `chunk_bytes` bytes that are runs of
// complete rows. Chooses the largest leading extent that divides the array's.
// If all divisors are less than half of what fits (as with a prime number of
// rows), chooses nearly equal chunks, the last of which reaches past the end.
// If one row is too large, the extent is 1 and the same rule applies to the
// next axis. If one element is too large, the chunk is one element. REQUIRES:
// chunk_bytes > 0; extents >= 0 (0 counts as 1).
Shape ChooseRowChunks(const Shape& shape, DType dtype, int64_t chunk_bytes);

// Divides `chunk` along `axes`, the axis that is outermost in its bytes first.
// Stops at `target_bytes`, or when the extents have no more divisors. Never
// makes pieces of less than `min_bytes`.
void CutAtDivisors(std::span<const int> axes, size_t element_bytes,
                   uint64_t target_bytes, uint64_t min_bytes, Shape& chunk);

// Returns a chunk shape whose chunks are contiguous in the array's C order, and
// lie inside one part each of a regular grid of `part_shape`. Chunks have about
// `chunk_bytes` bytes, or more if the extents have too few divisors.
// REQUIRES: ranks are equal.
Shape ChooseRunChunks(const Shape& shape, const Shape& part_shape, DType dtype,
                      uint64_t chunk_bytes);

}  // namespace holdfast
