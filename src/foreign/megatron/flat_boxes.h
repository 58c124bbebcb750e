// A range of a shard's elements in C order, as boxes.
//
// Thread-safety: pure. Units: elements.
#pragma once

#include <vector>

#include "ground/tensor/box.h"
#include "holdfast/megatron/megatron.h"

namespace holdfast::megatron {

// The box's elements lie one after the other in the range, from `start` (of
// the range, not of the shard) on.
struct FlatBox {
  Box box;
  int64_t start = 0;
};
// In order; at most 2 * rank - 1. Empty for an empty range.
// REQUIRES: 0 <= range.start <= range.stop <= ElementCount(shape).
std::vector<FlatBox> FlatBoxes(const Shape& shape, const FlatRange& range);

// `box` of a 1-D view that holds the range: its elements in the box's shape.
// REQUIRES: the view has all of the range's elements.
ConstArrayView FlatView(const ConstArrayView& flat, const FlatBox& box);

}  // namespace holdfast::megatron
