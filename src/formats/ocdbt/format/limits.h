// Limits of the OCDBT format, and limits that a careful reader adds.
//
// Thread-safety: constants and plain values. Units: bytes unless named.
#pragma once

#include <cstdint>

namespace holdfast::ocdbt {

// Limits of the format, which every reader and writer enforces.
inline constexpr uint64_t kKeyBytesMax = 65535;
inline constexpr uint64_t kPathBytesMax = 65535;
inline constexpr uint64_t kNodeEntriesMax = uint64_t{1} << 20;
inline constexpr uint64_t kInlineValueBytesMax = uint64_t{1} << 20;
inline constexpr int kVersionTreeArityLog2Max = 16;
inline constexpr int kZstdLevelMin = -131072;
inline constexpr int kZstdLevelMax = 22;
inline constexpr uint64_t kOffsetMax = (uint64_t{1} << 63) - 1;

// Prefix compression lets a small file describe much larger keys and paths.
// They may need up to kExpansionBytesFree bytes, plus kExpansionRatioMax times
// the size of the body that describes them.
inline constexpr uint64_t kExpansionBytesFree = uint64_t{64} << 20;
inline constexpr uint64_t kExpansionRatioMax = 64;

struct DecodeLimits {
  // The largest body of one object.
  uint64_t decompressed_bytes_max = uint64_t{1} << 30;
};

}  // namespace holdfast::ocdbt
