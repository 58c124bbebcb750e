// How an array is cut into chunks.
//
// ChooseChunkShape and CalculateChunkByteSize give what Orbax 0.12.8 gives
// (_src/arrays/subchunking.py, _src/serialization/tensorstore_utils.py), error
// texts included. ChooseRowChunks is holdfast's own default: chunks that are
// runs of whole rows, so that each is one contiguous range of a C-order array.
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

// A chunk shape that divides `write_shape` and takes at most
// `target_byte_size` bytes, if one is given. The `shard_axes` are cut to one
// element each first; then the largest dimension that is cut already, again
// and again; then any.
Result<Shape> ChooseChunkShape(const Shape& global_shape,
                               const Shape& write_shape, DType dtype,
                               std::optional<int64_t> target_byte_size,
                               const std::vector<int64_t>& shard_axes = {});

// The target for ChooseChunkShape: a chunk must fit a data file.
// `data_file_bytes_target` 0 means files without limit.
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
  std::optional<int64_t> chunk_byte_size;  // counts where both are absent
};
// Orbax's older rules, and their texts: `Zarr3 is not enabled when ...`,
// `write_chunk_shape=... is not a divisor of shard_shape=...`.
Result<ChunkShapes> ChooseChunkShapes(const ChunkShapesRequest& request);

// True where every extent divides, and the ranks are equal.
bool ValidateDivisibleShapes(const Shape& divided_shape,
                             const Shape& dividing_shape);

// Chunks of at most `chunk_bytes_target` bytes that are runs of whole rows: the
// largest leading extent that divides the array's, or, where all divisors are
// less than half of what fits (a prime number of rows), nearly equal chunks of
// which the last sticks out. When one row is too large, extent 1 there and the
// same for the next axis. One element when even that is too large.
// REQUIRES: chunk_bytes_target > 0; extents >= 0 (0 counts as 1).
Shape ChooseRowChunks(const Shape& shape, DType dtype,
                      int64_t chunk_bytes_target);

// Cuts `chunk` along `axes`, the outermost in its bytes first, down to
// `target_bytes` where its extents can be divided so: only at divisors, and
// never into pieces of less than `min_bytes`.
void CutAtDivisors(std::span<const int> axes, size_t element_bytes,
                   uint64_t target_bytes, uint64_t min_bytes, Shape& chunk);

// Chunks that are runs of the array's C order, all of one size: each lies in
// one part of a regular grid of `part_shape`, and has about
// `chunk_bytes_target` bytes where extents can be divided so. REQUIRES: ranks
// are equal.
Shape ChooseRunChunks(const Shape& shape, const Shape& part_shape, DType dtype,
                      uint64_t chunk_bytes_target);

}  // namespace holdfast
