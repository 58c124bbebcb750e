// Writes npz: one zip archive of npy arrays, stored and not compressed, which
// numpy.load reads.
//
// Elements begin at multiples of 64. Scalars are arrays without axes; dtypes
// that numpy lacks become unsigned integers of the same width; long texts and
// objects become uint8 arrays. The member holdfast.tree.json has everything
// that npz cannot express. The mark of a piece is its CRC-32.
// Thread-safety, units, errors: as target.h.
#pragma once

#include <memory>

#include "foreign/extents/target.h"

namespace holdfast {

std::unique_ptr<FormatTarget> MakeNpzTarget();

}  // namespace holdfast
