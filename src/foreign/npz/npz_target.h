// Writing npz: one zip archive of npy arrays, stored and not compressed, which
// numpy.load reads.
//
// Elements begin at multiples of 64. Scalars are arrays without axes, dtypes
// that numpy lacks unsigned integers of the same width, long texts and objects
// uint8 arrays; what npz cannot say is in the member holdfast.tree.json. The
// mark of a piece is its CRC-32.
// Thread-safety, units, errors: as target.h.
#pragma once

#include <memory>

#include "foreign/extents/target.h"

namespace holdfast {

std::unique_ptr<FormatTarget> MakeNpzTarget();

}  // namespace holdfast
