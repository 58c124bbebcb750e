// Boxes of an array that lies in C order, in a stream or packed, run by run.
//
// Thread-safety: pure. Units: elements. Errors: those of `fn`.
#pragma once

#include <cstdint>
#include <functional>

#include "holdfast/tensor.h"

namespace holdfast {

// `target` is the box of its shape at `origin` of an array of `shape`. Calls
// fn(first, part) for its parts that lie in one row in the array, in their
// order there; `first` is the number of the part's first element.
Status ForEachRunOfBox(
    const Shape& shape, const Shape& origin, const ArrayView& target,
    const std::function<Status(uint64_t first, const ArrayView& part)>& fn);

}  // namespace holdfast
