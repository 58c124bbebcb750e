// Splits a box of an array into runs that are consecutive in C order.
//
// Thread-safety: pure. Units: elements. Errors: those of `fn`.
#pragma once

#include <cstdint>
#include <functional>

#include "holdfast/tensor.h"

namespace holdfast {

// Calls fn(first, part) for each part of `target` that is consecutive in an
// array of shape `shape`, in the array's order. `target` is a box of that
// array, at `origin`; `first` is the index of the part's first element in the
// array.
Status ForEachRunOfBox(
    const Shape& shape, const Shape& origin, const ArrayView& target,
    const std::function<Status(uint64_t first, const ArrayView& part)>& fn);

}  // namespace holdfast
