// Elements of any dtype as numbers that hold them exactly.
//
// Thread-safety: pure functions. Elements need not be aligned.
#pragma once

#include <cstddef>
#include <cstdint>

#include "holdfast/dtype.h"

namespace holdfast {

// True when float64 holds every value: for all dtypes but integers of 64 bits.
// Complex numbers count as their two parts.
bool FitsDouble(DType dtype);
// 2 for complex dtypes, else 1.
int PartsOf(DType dtype);

// `count` elements, PartsOf(dtype) numbers each. REQUIRES: FitsDouble(dtype).
void LoadDoubles(DType dtype, const char* elements, size_t count,
                 double* numbers);
// The same for all dtypes. Holds 64-bit integers exactly: its mantissa has 64
// bits or more.
void LoadLongDoubles(DType dtype, const char* elements, size_t count,
                     long double* numbers);

}  // namespace holdfast
