#include "formats/zarr/read_plan.h"

#include <cassert>
#include <limits>

#include "formats/zarr/format/braces.h"
#include "formats/zarr/format/chunk_key.h"
#include "ground/base/status_macros.h"
#include "ground/tensor/grid.h"

namespace holdfast::zarr {
namespace {

// The first and last chunk that the box touches along dimension i.
struct Touched {
  int64_t first;
  int64_t last;
};

Touched TouchedAlong(const ArrayMetadata& metadata, const Box& box, size_t i) {
  const int64_t chunk = metadata.chunk_shape[i];
  return {box.origin[i] / chunk, (box.origin[i] + box.shape[i] - 1) / chunk};
}

// Returns the number of chunks that the box touches; saturates at the largest
// int64_t.
int64_t TouchedCount(const ArrayMetadata& metadata, const Box& box) {
  int64_t count = 1;
  for (size_t i = 0; i < box.shape.size(); ++i) {
    const Touched touched = TouchedAlong(metadata, box, i);
    const int64_t along = touched.last - touched.first + 1;
    if (along > std::numeric_limits<int64_t>::max() / count) {
      return std::numeric_limits<int64_t>::max();
    }
    count *= along;
  }
  return count;
}

void Split(const ArrayMetadata& metadata, const Box& box,
           int64_t chunk_count_max, std::vector<Box>& boxes) {
  if (TouchedCount(metadata, box) <= chunk_count_max) {
    boxes.push_back(box);
    return;
  }
  // Halving the outermost dimension that has more than one chunk keeps C order.
  // The box touches more than one chunk, so there is such a dimension.
  size_t i = 0;
  while (TouchedAlong(metadata, box, i).first ==
         TouchedAlong(metadata, box, i).last) {
    ++i;
  }
  const Touched touched = TouchedAlong(metadata, box, i);
  const int64_t middle = touched.first + (touched.last - touched.first + 1) / 2;
  Box low = box;
  Box high = box;
  high.origin[i] = middle * metadata.chunk_shape[i];
  low.shape[i] = high.origin[i] - box.origin[i];
  high.shape[i] = box.shape[i] - low.shape[i];
  Split(metadata, low, chunk_count_max, boxes);
  Split(metadata, high, chunk_count_max, boxes);
}

}  // namespace

ReadPlan PlanRead(const ArrayMetadata& metadata, std::string_view prefix,
                  const Box& box) {
  const ChunkGrid grid = {metadata.shape, metadata.chunk_shape};
  ReadPlan plan;
  const Status status =
      ForEachChunk(grid, box, [&](const Shape& index) -> Status {
        const Box chunk = grid.ChunkBox(index);
        const Box common = *Intersect(chunk, box);
        plan.push_back({index, ChunkKey(prefix, metadata, index),
                        Relative(common, chunk.origin),
                        Relative(common, box.origin)});
        return Status();
      });
  assert(status.ok());
  (void)status;
  return plan;
}

std::vector<Box> SplitByChunks(const ArrayMetadata& metadata, const Box& box,
                               int64_t chunk_count_max) {
  assert(chunk_count_max >= 1);
  std::vector<Box> boxes;
  if (!IsEmpty(box)) Split(metadata, box, chunk_count_max, boxes);
  return boxes;
}

std::string DescribeChunk(const Shape& chunk_index, std::string_view place) {
  return "chunk " + Braced(chunk_index) + " stored at \"" + std::string(place) +
         "\"";
}

}  // namespace holdfast::zarr
