#include "formats/zarr/format/braces.h"

namespace holdfast::zarr {

std::string Braced(const Shape& shape) {
  std::string text = "{";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "}";
}

}  // namespace holdfast::zarr
