// Checks that a mesh is consistent.
//
// Thread-safety: pure. Errors: InvalidArgument.
#pragma once

#include <cstddef>
#include <cstdint>

#include "holdfast/sharding.h"

namespace holdfast {

// More devices than any machine has: a shape that needs more is damaged.
inline constexpr int64_t kMeshDevicesMax = int64_t{1} << 22;
inline constexpr size_t kMeshRankMax = 64;

// Returns the number of devices.
Result<int64_t> CheckMesh(const Mesh& mesh);

}  // namespace holdfast
