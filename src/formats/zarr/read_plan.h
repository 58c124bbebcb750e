// ReadPlan: the chunks that a read of a box touches, and the target of each
// part.
//
// A plan is a value: sorted by chunk index in C order, a pure function of
// metadata and box, independent of what is stored.
// Thread-safety: pure functions. Units: elements.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/zarr/format/metadata.h"
#include "ground/tensor/box.h"

namespace holdfast::zarr {

struct ReadItem {
  Shape chunk_index;
  std::string key;  // prefix included
  Box box_in_chunk;
  Box box_in_target;

  bool operator==(const ReadItem&) const = default;
};
using ReadPlan = std::vector<ReadItem>;

// REQUIRES: box within the array.
ReadPlan PlanRead(const ArrayMetadata& metadata, std::string_view prefix,
                  const Box& box);

// Cuts a box at chunk borders into boxes, in C order, that touch at most
// `chunk_count_max` chunks each, so that plans of huge boxes stay small.
// REQUIRES: box within the array; chunk_count_max >= 1.
std::vector<Box> SplitByChunks(const ArrayMetadata& metadata, const Box& box,
                               int64_t chunk_count_max);

// Returns `chunk {1, 2} stored at "place"`, for messages.
std::string DescribeChunk(const Shape& chunk_index, std::string_view place);

}  // namespace holdfast::zarr
