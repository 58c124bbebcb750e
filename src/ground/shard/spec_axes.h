// A partition spec resolved against its mesh.
//
// Thread-safety: pure. Errors: InvalidArgument, in JAX's words.
#pragma once

#include <cstddef>
#include <vector>

#include "holdfast/sharding.h"

namespace holdfast {

// The axes that cut each dimension of the spec, by their places in the mesh.
Result<std::vector<std::vector<size_t>>> SpecAxes(
    const NamedSharding& sharding);

// The number of parts of each dimension of the array. `axes` as SpecAxes gave.
Result<Shape> PartCounts(const NamedSharding& sharding,
                         const std::vector<std::vector<size_t>>& axes,
                         const Shape& array_shape);

// The digits that end the name of a device, before any "(process=0,...)"; 0
// without any.
int64_t DeviceNumber(const std::string& device_str);

}  // namespace holdfast
