// Commit times for the tests of this folder.
// Tests only. Units: nanoseconds since 1970-01-01 UTC.
#pragma once

#include <cstdint>

namespace holdfast::ocdbt {

// The origin of a test's commit times.
inline constexpr uint64_t kTimeNs = 1700000000000000000;

}  // namespace holdfast::ocdbt
