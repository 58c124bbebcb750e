// Strided copies and value conversion between host arrays.
//
// Thread-safety: pure functions of their views; source and target must not
// overlap. Errors: shape mismatches are the caller's bug (asserted).
#pragma once

#include <string_view>

#include "holdfast/tensor.h"

namespace holdfast {

// target = source, element by element. REQUIRES: equal shape and dtype.
// Contiguous inner runs are copied with memcpy.
void CopyStrided(const ConstArrayView& source, const ArrayView& target);

// As CopyStrided, with the bytes of each element reversed (of each half, for
// complex types).
void CopyByteSwapped(const ConstArrayView& source, const ArrayView& target);

// target = source cast to target.dtype, value for value as the `cast` driver of
// TensorStore 0.1.86 on x86-64: integers wrap, floats round to nearest even
// (integers on their way to narrow floats, and float64 on its way to 16 bits,
// go through float32, which rounds twice), NaN and overflow as ml_dtypes does
// for each narrow float, complex to real drops the imaginary part, anything to
// bool is `!= 0`. NaNs keep the upper bits of their payload, with the quiet bit
// set in float16 and the one below it in bfloat16. float8_e8m0fnu is not cast
// by value (ground/tensor/element.h). The upper bits of sub-byte integers are
// ignored, and zero in the target. Float to integer out of range is undefined
// in C++; the results are those of the scalar instructions of x86-64, as
// TensorStore's, whose results for uint32 depend on the position in the array.
// Complex to bool, which TensorStore refuses, is the truth of the whole number:
// refusing is for the caller. A cast to the same dtype is a plain copy.
// REQUIRES: equal shape.
void ConvertStrided(const ConstArrayView& source, const ArrayView& target);

// Writes `element` (DTypeBytes(dtype) bytes) to every position.
void FillStrided(const ArrayView& target, const char* element);

// True when every element equals `element` bit by bit.
bool AllEqual(const ConstArrayView& view, const char* element);

// In place: gives each value its one pattern of bits. Bits above sub-byte
// elements are cleared; any such bit of a float4 is its sign, as for ml_dtypes;
// any byte of a bool but 0 becomes 1, as for numpy. Other dtypes are left
// alone. `data` is contiguous.
void ClearUnusedBits(DType dtype, char* data, size_t element_count);

// Whether ClearUnusedBits would change the elements that lie in `data`.
bool HasUnusedBits(DType dtype, std::string_view data);

}  // namespace holdfast
