// Converts elements to numbers and text: bits -> double -> shortest decimal
// digits.
//
// The small float formats follow IEEE 754 (binary16), bfloat16, the OCP 8-bit
// and microscaling formats (E4M3FN, E5M2, E8M0, FP4 E2M1) and the "fnuz"
// variants, as ml_dtypes defines them. Elements are stored as described in
// holdfast/dtype.h: little endian, sub-byte values in the low bits.
// Thread-safety: pure functions.
// Ownership: `element` is borrowed; it need not be aligned.
// Errors: none; every bit pattern has a value.
#pragma once

#include <cstdint>
#include <string>

#include "cli/json_out.h"
#include "holdfast/dtype.h"

namespace holdfast::cli {

// Returns the exact value of a float element.
// REQUIRES: DTypeKindOf(dtype) == kFloat.
double FloatValue(DType dtype, const char* element);
// Returns the value of an integer element. REQUIRES: kSigned or kUnsigned.
int64_t SignedValue(DType dtype, const char* element);
uint64_t UnsignedValue(DType dtype, const char* element);
// The real and imaginary parts. REQUIRES: kComplex.
struct ComplexValue {
  double real = 0;
  double imag = 0;
};
ComplexValue ComplexElement(DType dtype, const char* element);

// Returns the shortest digits that read back as the same value in `dtype`'s
// precision (float32 digits for the small floats, which float32 represents
// exactly). With `scientific`: "1.e+20"; otherwise "0.1", "1." as numpy prints
// in arrays.
std::string FloatDigits(DType dtype, double value, bool scientific);

// Returns a single element as Python prints it: "1.5", "2.0", "True", "(1+2j)".
std::string ElementText(DType dtype, const char* element);

// Writes an element as JSON: a number, a boolean, [re, im], or the strings
// "NaN" and "Infinity".
void WriteElement(DType dtype, const char* element, JsonWriter* json);

}  // namespace holdfast::cli
