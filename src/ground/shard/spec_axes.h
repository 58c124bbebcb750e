// A partition spec resolved against its mesh.
//
// Thread-safety: pure. Errors: InvalidArgument, with JAX's messages.
#pragma once

#include <cstddef>
#include <vector>

#include "holdfast/sharding.h"

namespace holdfast {

// Returns the axes that split each dimension of the spec, as indices into the
// mesh's axes.
Result<std::vector<std::vector<size_t>>> SpecAxes(
    const NamedSharding& sharding);

// Returns the number of parts of each dimension of the array. `axes` come from
// SpecAxes.
Result<Shape> PartCounts(const NamedSharding& sharding,
                         const std::vector<std::vector<size_t>>& axes,
                         const Shape& array_shape);

// Returns the number at the end of a device's name, before any
// "(process=0,...)", or 0 if the name has no digits there.
int64_t DeviceNumber(const std::string& device_str);

}  // namespace holdfast
