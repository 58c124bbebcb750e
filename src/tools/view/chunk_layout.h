// The chunks of a zarr array of which every one lies in a file as it is: worked
// out from where the array's elements lie.
//
// A chunk may be a whole part of the array, or a piece of one: parts are cut
// where they lie in the file in several runs, and along their outermost axis
// down to a size that readers like. zarr wants one shape for all chunks, which
// divides the array, and one order of axes in them.
// Thread-safety: pure functions. Units: elements; bytes where named so.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/restore/raw_array.h"

namespace holdfast {

struct ChunkLimits {
  // Parts that are larger are cut into chunks of at most this size, where their
  // rows can be divided so.
  uint64_t chunk_bytes_target = uint64_t{8} << 20;
  // An array of more than kFewChunks chunks has none smaller than this.
  uint64_t chunk_bytes_min = 64 << 10;
  // zarr 2 knows only C and Fortran order.
  bool any_order = true;
};
inline constexpr int64_t kFewChunks = 1024;

struct ChunkLayout {
  // Why there are no such chunks, in words; empty: there are.
  std::string why_not;
  Shape chunk_shape;
  // Dimension i as stored, outermost first, is the array's dimension order[i].
  std::vector<int> order;
  bool is_big_endian = false;
  struct Range {
    uint32_t extent = 0;  // of those given
    uint64_t offset = 0;  // in its file
  };
  // The ranges of all chunks, in C order of their grid; each of the chunk's
  // bytes.
  std::vector<Range> ranges;
};

// REQUIRES: an array with elements; extents that are disjoint boxes inside it,
// in its files, and not empty.
ChunkLayout LayOutChunks(DType dtype, const Shape& shape,
                         std::span<const Extent> extents,
                         const ChunkLimits& limits);

}  // namespace holdfast
