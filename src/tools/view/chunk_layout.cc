#include "tools/view/chunk_layout.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "engine/restore/extent_read.h"
#include "engine/restore/locate.h"
#include "engine/save/chunk_shapes.h"
#include "ground/tensor/grid.h"

namespace holdfast {
namespace {

ChunkLayout WhyNot(std::string why) {
  ChunkLayout layout;
  layout.why_not = std::move(why);
  return layout;
}

// Returns the largest shape whose grid includes every border between extents.
Shape CommonShape(const Shape& shape, std::span<const Extent> extents) {
  Shape common = shape;
  for (const Extent& extent : extents) {
    for (size_t d = 0; d < shape.size(); ++d) {
      const int64_t begin = extent.box.origin[d];
      common[d] = std::gcd(common[d], begin);
      common[d] = std::gcd(common[d], begin + extent.box.shape[d]);
    }
  }
  return common;
}

// Returns the axes on which the chunk has more than one element, outermost in
// the file first.
std::vector<int> LongAxes(const Shape& strides, const Shape& chunk) {
  std::vector<int> axes;
  for (size_t d = 0; d < chunk.size(); ++d) {
    if (chunk[d] > 1) axes.push_back(static_cast<int>(d));
  }
  std::stable_sort(axes.begin(), axes.end(),
                   [&](int a, int b) { return strides[a] > strides[b]; });
  return axes;
}

// Cuts the chunk until it is a single run in the extent's file.
void CutToOneRun(const Shape& strides, size_t element_bytes, Shape& chunk) {
  int64_t run_bytes = static_cast<int64_t>(element_bytes);
  bool is_run = true;
  const std::vector<int> axes = LongAxes(strides, chunk);
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    is_run = is_run && strides[*axis] == run_bytes;
    if (is_run) {
      run_bytes *= chunk[*axis];
    } else {
      chunk[*axis] = 1;
    }
  }
}

// Cuts the chunk until it is a single run in every extent's file. Repeats the
// cuts, because a cut for one extent may break the runs of another.
void CutToRuns(std::span<const Extent> extents, size_t element_bytes,
               Shape& chunk) {
  Shape before;
  while (before != chunk) {
    before = chunk;
    for (const Extent& extent : extents) {
      CutToOneRun(ExtentStrides(extent, element_bytes), element_bytes, chunk);
    }
  }
}

// Returns the order of all axes: long axes as they are stored, and before each
// of them the short axes with lower indices. So C order is kept where possible.
std::vector<int> FullOrder(const std::vector<int>& long_axes, size_t rank) {
  std::vector<int> order;
  std::vector<bool> is_long(rank);
  for (const int axis : long_axes) is_long[axis] = true;
  int next = 0;
  const auto add_short_before = [&](int end) {
    for (; next < end; ++next) {
      if (!is_long[next]) order.push_back(next);
    }
  };
  for (const int axis : long_axes) {
    add_short_before(axis);
    order.push_back(axis);
  }
  add_short_before(static_cast<int>(rank));
  return order;
}

bool IsSorted(const std::vector<int>& axes) {
  return std::is_sorted(axes.begin(), axes.end());
}
bool IsReversed(const std::vector<int>& axes) {
  return std::is_sorted(axes.rbegin(), axes.rend());
}

uint64_t BytesOf(const Shape& shape, size_t element_bytes) {
  return static_cast<uint64_t>(ElementCount(shape)) * element_bytes;
}

// Finds where each chunk is stored. Returns true if all chunks were found.
bool PlaceChunks(const ChunkGrid& grid, std::span<const Extent> extents,
                 size_t element_bytes,
                 std::vector<ChunkLayout::Range>& ranges) {
  const Shape counts = grid.ChunkCounts();
  ranges.resize(static_cast<size_t>(grid.ChunkCount()));
  size_t placed_count = 0;
  for (size_t e = 0; e < extents.size(); ++e) {
    const Extent& extent = extents[e];
    const Shape strides = ExtentStrides(extent, element_bytes);
    const Status placed =
        ForEachChunk(grid, extent.box, [&](const Shape& index) {
          uint64_t number = 0;
          uint64_t offset = extent.offset;
          for (size_t d = 0; d < index.size(); ++d) {
            number = number * counts[d] + index[d];
            const int64_t at =
                index[d] * grid.chunk_shape[d] - extent.box.origin[d];
            offset += static_cast<uint64_t>(at * strides[d]);
          }
          ranges[number] = {static_cast<uint32_t>(e), offset};
          ++placed_count;
          return Status();
        });
    if (!placed.ok()) return false;
  }
  return placed_count == ranges.size();
}

}  // namespace

ChunkLayout LayOutChunks(DType dtype, const Shape& shape,
                         std::span<const Extent> extents,
                         const ChunkLimits& limits) {
  const size_t element_bytes = DTypeBytes(dtype);
  ChunkLayout layout;
  layout.is_big_endian = element_bytes > 1 && extents[0].is_big_endian;
  Shape& chunk = layout.chunk_shape;
  chunk = CommonShape(shape, extents);
  CutToRuns(extents, element_bytes, chunk);
  const Shape strides = ExtentStrides(extents[0], element_bytes);
  CutAtDivisors(LongAxes(strides, chunk), element_bytes, limits.chunk_bytes,
                limits.chunk_bytes_min, chunk);
  CutToRuns(extents, element_bytes, chunk);
  const std::vector<int> long_axes = LongAxes(strides, chunk);
  for (const Extent& extent : extents) {
    if (element_bytes > 1 && extent.is_big_endian != layout.is_big_endian) {
      return WhyNot("its parts have different byte orders");
    }
    if (LongAxes(ExtentStrides(extent, element_bytes), chunk) != long_axes) {
      return WhyNot("its parts lie in different orders of axes");
    }
  }
  if (!limits.any_order && !IsSorted(long_axes) && !IsReversed(long_axes)) {
    return WhyNot("zarr 2 has no such order of axes (zarr 3 has)");
  }
  const ChunkGrid grid{shape, chunk};
  const int64_t chunk_count = grid.ChunkCount();
  const uint64_t chunk_bytes = BytesOf(chunk, element_bytes);
  if ((chunk_count > kFewChunks && chunk_bytes < limits.chunk_bytes_min) ||
      chunk_count > kChunkCountMax) {
    return WhyNot("its elements lie apart (" + std::to_string(chunk_count) +
                  " runs of " + std::to_string(chunk_bytes) + " bytes)");
  }
  layout.order = FullOrder(long_axes, shape.size());
  if (!limits.any_order && !IsSorted(layout.order)) {
    // Use Fortran or C order. Axes with one element may be anywhere.
    layout.order.resize(shape.size());
    std::iota(layout.order.rbegin(), layout.order.rend(), 0);
    if (IsSorted(long_axes)) {
      std::reverse(layout.order.begin(), layout.order.end());
    }
  }
  if (!PlaceChunks(grid, extents, element_bytes, layout.ranges)) {
    return WhyNot("some of its elements lie nowhere");
  }
  return layout;
}

}  // namespace holdfast
