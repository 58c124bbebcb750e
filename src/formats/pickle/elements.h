// The elements of a strided array in C order, as pieces of contiguous bytes.
//
// Thread-safety: pure functions. Ownership: a piece is borrowed for the call.
// Units: bytes.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "holdfast/tensor.h"

namespace holdfast::pickle {

void ForEachPiece(const ConstArrayView& view,
                  const std::function<void(std::string_view)>& fn);

// Returns all elements as one string.
std::string ElementBytes(const ConstArrayView& view);

}  // namespace holdfast::pickle
