// Scalar conversions between double and every narrow float type, by bits.
// Rounding, NaN and overflow follow ml_dtypes. Thread-safety: pure.
#pragma once

#include <cstdint>

#include "holdfast/dtype.h"

namespace holdfast {

// Returns the value of the element whose bit pattern is `bits` (low DTypeBits
// used). REQUIRES: DTypeKindOf(dtype) == kFloat.
double FloatBitsToDouble(DType dtype, uint64_t bits);
// Returns the nearest representable value, ties to even, rounded once
// (ConvertStrided goes through float32 where ml_dtypes arrays do). Upper bits
// are zero. REQUIRES: DTypeKindOf(dtype) == kFloat.
uint64_t DoubleToFloatBits(DType dtype, double value);

}  // namespace holdfast
