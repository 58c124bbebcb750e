// Finds a chunk shape for a zarr array such that each chunk is one range of a
// file, given where the array's elements are stored.
//
// A chunk may be a complete extent, or a piece of one. Extents are cut where
// the file stores them in several runs, and along their outermost axis down to
// a size that suits readers. zarr needs one shape for all chunks, which must
// divide the array's shape, and one order of axes in all chunks.
// Thread-safety: pure functions. Units: elements; bytes where named so.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/restore/raw_array.h"

namespace holdfast {

struct ChunkLimits {
  // Larger extents are cut into chunks of at most this size, as far as their
  // rows can be divided.
  uint64_t chunk_bytes = uint64_t{8} << 20;
  // In an array of more than kFewChunks chunks, no chunk is smaller than this.
  uint64_t chunk_bytes_min = 64 << 10;
  // If false, only C and Fortran order are allowed, as in zarr 2.
  bool any_order = true;
};
inline constexpr int64_t kFewChunks = 1024;

struct ChunkLayout {
  // Says why no such chunks exist; empty if they do.
  std::string why_not;
  Shape chunk_shape;
  // Dimension i as stored, outermost first, is the array's dimension order[i].
  std::vector<int> order;
  bool is_big_endian = false;
  struct Range {
    uint32_t extent = 0;  // index in `extents`
    uint64_t offset = 0;  // in its file
  };
  // Where each chunk is stored, in C order of the chunk grid.
  std::vector<Range> ranges;
};

// REQUIRES: the array has elements. The extents are nonempty disjoint boxes
// inside the array, and their bytes are inside their files.
ChunkLayout LayOutChunks(DType dtype, const Shape& shape,
                         std::span<const Extent> extents,
                         const ChunkLimits& limits);

}  // namespace holdfast
