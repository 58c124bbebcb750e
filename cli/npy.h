// The header of a .npy file, versions 1.0 and 2.0
// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
//
// numpy has no names for bfloat16 and the other ml_dtypes types. np.save writes
// them as raw bytes ("<V2"), and so does this header. Read them back with
// np.load(f).view(ml_dtypes.bfloat16). float8_e5m2 is "<V1", too, because
// np.load refuses np.save's own name "<f1".
// Thread-safety: pure functions.
#pragma once

#include <string>

#include "holdfast/dtype.h"
#include "holdfast/tensor.h"

namespace holdfast::cli {

// Returns the dtype in numpy's notation: "<f4", "|b1", "<V2", ...
std::string NpyDescr(DType dtype);
// Returns everything before the elements, which follow in C order. The size is
// a multiple of 64 bytes.
std::string NpyHeader(DType dtype, const Shape& shape);

}  // namespace holdfast::cli
