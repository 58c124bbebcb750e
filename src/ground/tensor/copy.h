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

// Like CopyStrided, but reverses the bytes of each element (of each half, for
// complex types).
void CopyByteSwapped(const ConstArrayView& source, const ArrayView& target);

// Assigns the elements of `source`, cast to target.dtype, to `target`.
// REQUIRES: equal shape. The values are those of the `cast` driver of
// TensorStore 0.1.86 on x86-64:
//
// - Integers wrap.
// - Floats round to nearest even. Integers cast to narrow floats, and float64
//   cast to 16 bits, go through float32, which rounds twice.
// - NaN and overflow follow ml_dtypes for each narrow float. NaNs keep the
//   upper bits of their payload, with the quiet bit set in float16 and the bit
//   below it in bfloat16.
// - Complex to real drops the imaginary part. Anything to bool is `!= 0`.
// - float8_e8m0fnu is not cast by value (ground/tensor/element.h).
// - The upper bits of sub-byte integers are ignored in the source and zero in
//   the target.
// - Float to integer out of range is undefined in C++. The results are those of
//   x86-64's scalar instructions, as in TensorStore, whose results for uint32
//   depend on the position in the array.
//
// A cast from complex to bool, which TensorStore refuses, tests the entire
// number against zero; the caller may refuse it. A cast to the same dtype is a
// plain copy.
void ConvertStrided(const ConstArrayView& source, const ArrayView& target);

// Writes `element` (DTypeBytes(dtype) bytes) to every position.
void FillStrided(const ArrayView& target, const char* element);

// Returns whether every element equals `element` bit by bit.
bool AllEqual(const ConstArrayView& view, const char* element);

// Gives each value its one canonical bit pattern, in place. Bits above sub-byte
// elements are cleared; for a float4, any such bit is its sign, as in
// ml_dtypes; any nonzero byte of a bool becomes 1, as in numpy. Other dtypes
// are left unchanged. `data` is contiguous.
void ClearUnusedBits(DType dtype, char* data, size_t element_count);

// Returns whether ClearUnusedBits would change the elements in `data`.
bool HasUnusedBits(DType dtype, std::string_view data);

}  // namespace holdfast
