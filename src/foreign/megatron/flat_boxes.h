// Divides a range of a shard's elements in C order into boxes.
//
// Thread-safety: pure. Units: elements.
#pragma once

#include <vector>

#include "ground/tensor/box.h"
#include "holdfast/megatron/megatron.h"

namespace holdfast::megatron {

// The box's elements are consecutive in the range, beginning at `start`
// (counted from the range's start, not the shard's).
struct FlatBox {
  Box box;
  int64_t start = 0;
};
// In order; at most 2 * rank - 1 boxes. Empty for an empty range.
// REQUIRES: 0 <= range.start <= range.stop <= ElementCount(shape).
std::vector<FlatBox> FlatBoxes(const Shape& shape, const FlatRange& range);

// The elements of `box` from a 1-D view of the range, in the box's shape.
// REQUIRES: the view has all elements of the range.
ConstArrayView FlatView(const ConstArrayView& flat, const FlatBox& box);

}  // namespace holdfast::megatron
