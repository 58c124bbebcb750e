// Loads elements of any dtype as numbers that represent them exactly.
//
// Thread-safety: pure functions. Elements need not be aligned.
#pragma once

#include <cstddef>
#include <cstdint>

#include "holdfast/dtype.h"

namespace holdfast {

// True if float64 represents every value of the dtype exactly, which holds for
// all dtypes but 64-bit integers. Complex numbers count as their two parts.
bool FitsDouble(DType dtype);
// 2 for complex dtypes, else 1.
int PartsOf(DType dtype);

// Loads `count` elements, PartsOf(dtype) numbers each. REQUIRES:
// FitsDouble(dtype).
void LoadDoubles(DType dtype, const char* elements, size_t count,
                 double* numbers);
// Like LoadDoubles, for all dtypes. Represents 64-bit integers exactly, since
// the mantissa has 64 bits or more.
void LoadLongDoubles(DType dtype, const char* elements, size_t count,
                     long double* numbers);

}  // namespace holdfast
