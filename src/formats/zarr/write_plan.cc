#include "formats/zarr/write_plan.h"

#include "formats/zarr/read_plan.h"
#include "ground/tensor/grid.h"

namespace holdfast::zarr {

WritePlan PlanWrite(const ArrayMetadata& metadata, std::string_view prefix,
                    const Box& box) {
  const ChunkGrid grid = {metadata.shape, metadata.chunk_shape};
  WritePlan plan;
  for (ReadItem& item : PlanRead(metadata, prefix, box)) {
    Shape stored_shape = grid.ChunkBox(item.chunk_index).shape;
    plan.push_back({std::move(item.chunk_index), std::move(item.key),
                    std::move(stored_shape), std::move(item.box_in_chunk),
                    std::move(item.box_in_target)});
  }
  return plan;
}

}  // namespace holdfast::zarr
