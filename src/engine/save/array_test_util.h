// Arrays for the tests of this folder.
// Thread-safety: pure functions. Tests only.
#pragma once

#include <cstring>
#include <utility>

#include "holdfast/tensor.h"

namespace holdfast {

inline Array Zeros(DType dtype, Shape shape) {
  Array array = *Array::Allocate(dtype, std::move(shape));
  std::memset(array.mutable_view().data, 0, array.byte_count());
  return array;
}

}  // namespace holdfast
