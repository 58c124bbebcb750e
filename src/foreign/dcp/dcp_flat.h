// Undoing Megatron's flattened tensors: a shard of an N-D array was stored as
// one axis, cut anywhere.
//
// Thread-safety: pure functions. Units: elements.
// Errors: none; sizes are the caller's to check.
#pragma once

#include <cstdint>
#include <functional>

#include "ground/tensor/box.h"

namespace holdfast {

// Cuts the elements [begin, end) of an array of `shape`, in C order, into boxes
// that each lie in a row there. Calls fn with each box and with the number of
// its first element. At most two boxes an axis.
// REQUIRES: 0 <= begin <= end <= ElementCount(shape).
void ForEachBoxOfRun(const Shape& shape, int64_t begin, int64_t end,
                     const std::function<void(const Box&, int64_t)>& fn);

}  // namespace holdfast
