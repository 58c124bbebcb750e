// Which byte runs of an uncompressed C-order chunk hold a box of it.
//
// A box of a chunk is many short runs with gaps between. Runs whose gaps are
// small are read as one span; the rest are spans of their own.
// Thread-safety: pure functions. Units: elements for boxes, bytes for offsets.
#pragma once

#include <cstdint>
#include <functional>

#include "ground/tensor/box.h"

namespace holdfast::zarr {

struct RawSpanOptions {
  // Gaps up to this are read and thrown away. About what a disk or an object
  // store delivers in the time of one more request.
  int64_t gap_bytes_max = int64_t{64} << 10;
  // Bound of a span with gaps, which needs scratch memory.
  int64_t span_bytes_max = int64_t{16} << 20;
  // Runs at least this long are read straight into place, even where joining
  // them would save requests.
  int64_t direct_bytes_min = int64_t{256} << 10;
};

// How a box is cut into spans: one for each index of its dimensions before
// `split`, each with all of the box's later dimensions.
struct RawPlan {
  int64_t item_bytes = 0;
  Shape strides;  // bytes, of the chunk
  Box box;        // in the chunk
  size_t split = 0;
  int64_t span_bytes = 0;  // of each span, gaps included
  bool direct = false;     // no gaps, and the target is contiguous there
};

// `target_strides` in bytes, of the view that receives the box.
// REQUIRES: box not empty and within the chunk, whose byte size fits an int64.
RawPlan PlanRawSpans(const Shape& chunk_shape, size_t item_bytes,
                     const Box& box, const Shape& target_strides,
                     const RawSpanOptions& options = {});

struct RawSpan {
  uint64_t offset = 0;  // of its first byte in the chunk
  Box box_in_target;
};

// Calls fn for each span in increasing offset, until fn fails.
Status ForEachRawSpan(const RawPlan& plan,
                      const std::function<Status(const RawSpan& span)>& fn);

}  // namespace holdfast::zarr
