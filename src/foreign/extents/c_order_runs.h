// Boxes of an array in C order, in a stream or packed, run by run.
//
// Thread-safety: pure. Units: elements. Errors: those of `fn`.
#pragma once

#include <cstdint>
#include <functional>

#include "holdfast/tensor.h"

namespace holdfast {

// `target` is the box of its shape at `origin` of an array of `shape`. Calls
// fn(first, part), in the array's order, for the parts of the target that are
// consecutive in the array; `first` is the index of the part's first element.
Status ForEachRunOfBox(
    const Shape& shape, const Shape& origin, const ArrayView& target,
    const std::function<Status(uint64_t first, const ArrayView& part)>& fn);

}  // namespace holdfast
