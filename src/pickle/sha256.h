// SHA-256 of elements, as lower-case hex.
//
// Thread-safety: pure. Errors: none.
#pragma once

#include <string>

#include "holdfast/tensor.h"

namespace holdfast::pickle {

// The hash of the elements in C order, little endian.
std::string Sha256OfElements(const ConstArrayView& view);

}  // namespace holdfast::pickle
