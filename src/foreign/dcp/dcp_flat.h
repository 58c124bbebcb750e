// Undoes the flattening of Megatron's tensors: a shard of an N-D array was
// stored as one axis, cut anywhere.
//
// Thread-safety: pure functions. Units: elements.
// Errors: none; the caller must check the sizes.
#pragma once

#include <cstdint>
#include <functional>

#include "ground/tensor/box.h"

namespace holdfast {

// Divides the elements [begin, end) of an array of `shape`, in C order, into
// boxes whose elements are consecutive there. Calls fn with each box and the
// index of its first element. There are at most two boxes per axis.
// REQUIRES: 0 <= begin <= end <= ElementCount(shape).
void ForEachBoxOfRun(const Shape& shape, int64_t begin, int64_t end,
                     const std::function<void(const Box&, int64_t)>& fn);

}  // namespace holdfast
