// Finds chunks for a zarr array such that each is one range of a file, from
// where the array's elements are stored.
//
// A chunk may be a complete part of the array, or a piece of one: parts are cut
// where they are stored in the file in several runs, and along their outermost
// axis down to a size that suits readers. zarr needs one shape for all chunks,
// which divides the array, and one order of axes in them.
// Thread-safety: pure functions. Units: elements; bytes where named so.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/restore/raw_array.h"

namespace holdfast {

struct ChunkLimits {
  // Larger parts are cut into chunks of at most this size, as far as their rows
  // can be divided.
  uint64_t chunk_bytes_target = uint64_t{8} << 20;
  // In an array of more than kFewChunks chunks, no chunk is smaller than this.
  uint64_t chunk_bytes_min = 64 << 10;
  // If false, only C and Fortran order are allowed, as in zarr 2.
  bool any_order = true;
};
inline constexpr int64_t kFewChunks = 1024;

struct ChunkLayout {
  // Why no such chunks exist, in words; empty if they do.
  std::string why_not;
  Shape chunk_shape;
  // Dimension i as stored, outermost first, is the array's dimension order[i].
  std::vector<int> order;
  bool is_big_endian = false;
  struct Range {
    uint32_t extent = 0;  // index of one given
    uint64_t offset = 0;  // in its file
  };
  // The ranges of all chunks, in C order of their grid; each has the chunk's
  // bytes.
  std::vector<Range> ranges;
};

// REQUIRES: an array with elements; extents that are nonempty disjoint boxes
// inside the array and inside its files.
ChunkLayout LayOutChunks(DType dtype, const Shape& shape,
                         std::span<const Extent> extents,
                         const ChunkLimits& limits);

}  // namespace holdfast
