// WritePlan: the chunks that a write of a box touches, and whether the box
// covers each of them completely. A chunk that is covered is only encoded; any
// other chunk is read first.
//
// A plan is a value, like ReadPlan.
// Thread-safety: pure functions. Units: elements.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/zarr/format/metadata.h"
#include "ground/tensor/box.h"

namespace holdfast::zarr {

struct WriteItem {
  Shape chunk_index;
  std::string key;     // prefix included
  Shape stored_shape;  // the part of the chunk inside the array
  Box box_in_chunk;
  Box box_in_source;

  // True if the box holds every element of the chunk that is inside the array.
  bool covers_chunk() const { return box_in_chunk.shape == stored_shape; }
  bool operator==(const WriteItem&) const = default;
};
using WritePlan = std::vector<WriteItem>;

// REQUIRES: box within the array.
WritePlan PlanWrite(const ArrayMetadata& metadata, std::string_view prefix,
                    const Box& box);

}  // namespace holdfast::zarr
