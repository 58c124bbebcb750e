// Divides a range of a shard's elements in C order into boxes.
//
// Thread-safety: pure. Units: elements.
#pragma once

#include <vector>

#include "ground/tensor/box.h"
#include "holdfast/megatron/megatron.h"

namespace holdfast::megatron {

// A box whose elements are consecutive in the range. `start` is the position of
// its first element in the range (not in the shard).
struct FlatBox {
  Box box;
  int64_t start = 0;
};
// Returns the boxes in order: at most 2 * rank - 1, none for an empty range.
// REQUIRES: 0 <= range.start <= range.stop <= ElementCount(shape).
std::vector<FlatBox> FlatBoxes(const Shape& shape, const FlatRange& range);

// Returns the elements of `box` from a 1-D view of the range, in the box's
// shape. REQUIRES: the view has all elements of the range.
ConstArrayView FlatView(const ConstArrayView& flat, const FlatBox& box);

}  // namespace holdfast::megatron
