// Shapes in messages as TensorStore prints them: "{2, 3}".
// Thread-safety: pure function.
#pragma once

#include <string>

#include "holdfast/tensor.h"

namespace holdfast::zarr {

std::string Braced(const Shape& shape);

}  // namespace holdfast::zarr
