// Strided copies and value conversion between host arrays.
//
// Thread-safety: pure functions of their views; source and target must not
// overlap. Errors: shape mismatches are the caller's bug (asserted).
#pragma once

#include "holdfast/tensor.h"

namespace holdfast {

// target = source, element by element. REQUIRES: equal shape and dtype.
// Contiguous inner runs are copied with memcpy.
void CopyStrided(const ConstArrayView& source, const ArrayView& target);

// As CopyStrided, with the bytes of each element reversed (of each half, for
// complex types).
void CopyByteSwapped(const ConstArrayView& source, const ArrayView& target);

// target = source cast to target.dtype, bit for bit as the `astype` of numpy
// 2.4.6 with ml_dtypes 0.6.0 on x86-64: integers wrap, floats round to nearest
// even (float64 and integers on their way to bfloat16 and narrower floats
// through float32, which rounds twice), NaN and overflow as ml_dtypes does for
// each narrow float, complex to real drops the imaginary part, anything to bool
// is `!= 0`. Float to integer out of range gives what the scalar instructions
// of x86-64 give. The upper bits of sub-byte elements are ignored, and zero in
// the target; a cast to the same dtype is a plain copy. REQUIRES: equal shape.
void ConvertStrided(const ConstArrayView& source, const ArrayView& target);

// Writes `element` (DTypeBytes(dtype) bytes) to every position.
void FillStrided(const ArrayView& target, const char* element);

// True when every element equals `element` bit by bit.
bool AllEqual(const ConstArrayView& view, const char* element);

// In place: clears the bits above the value of sub-byte elements. Other dtypes
// are left alone. `data` is contiguous.
void ClearUnusedBits(DType dtype, char* data, size_t element_count);

}  // namespace holdfast
