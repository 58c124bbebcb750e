// Finds the byte runs in an uncompressed C-order chunk that hold a given box.
//
// A box of a chunk is many short runs with gaps between them. Runs with small
// gaps are read together as one span; other runs are separate spans.
// Thread-safety: pure functions. Units: elements for boxes, bytes for offsets.
#pragma once

#include <cstdint>
#include <functional>

#include "ground/tensor/box.h"

namespace holdfast::zarr {

struct RawSpanOptions {
  // Gaps up to this size are read and discarded. It is about what a disk or an
  // object store delivers in the time of one more request.
  int64_t gap_bytes_max = int64_t{64} << 10;
  // The largest span with gaps, which needs scratch memory.
  int64_t span_bytes_max = int64_t{16} << 20;
  // Runs of at least this size are read straight into place, even if joining
  // them would save requests.
  int64_t direct_bytes_min = int64_t{256} << 10;
};

// The division of a box into spans: one span for each index of the dimensions
// before `split`, each with all later dimensions of the box.
struct RawPlan {
  int64_t item_bytes = 0;
  Shape strides;  // bytes, of the chunk
  Box box;        // in the chunk
  size_t split = 0;
  int64_t span_bytes = 0;  // of each span, gaps included
  bool direct = false;     // no gaps, and the target is contiguous there
};

// `target_strides` are in bytes and belong to the view that receives the box.
// REQUIRES: box not empty and within the chunk, whose byte size fits an int64.
RawPlan PlanRawSpans(const Shape& chunk_shape, size_t item_bytes,
                     const Box& box, const Shape& target_strides,
                     const RawSpanOptions& options = {});

struct RawSpan {
  uint64_t offset = 0;  // of its first byte in the chunk
  Box box_in_target;
};

// Calls fn for each span in order of increasing offset, until fn fails.
Status ForEachRawSpan(const RawPlan& plan,
                      const std::function<Status(const RawSpan& span)>& fn);

}  // namespace holdfast::zarr
