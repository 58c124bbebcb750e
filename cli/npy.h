// The header of a .npy file, versions 1.0 and 2.0
// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
//
// numpy has no names for bfloat16 and the other ml_dtypes types; np.save writes
// them as raw bytes ("<V2"), and so do we: read them back with
// np.load(f).view(ml_dtypes.bfloat16). float8_e5m2 is "<V1", too, because
// np.load refuses np.save's own name "<f1".
// Thread-safety: pure functions.
#pragma once

#include <string>

#include "holdfast/dtype.h"
#include "holdfast/tensor.h"

namespace holdfast::cli {

// "<f4", "|b1", "<V2", ...
std::string NpyDescr(DType dtype);
// Everything before the elements (in C order): a multiple of 64 bytes.
std::string NpyHeader(DType dtype, const Shape& shape);

}  // namespace holdfast::cli
