// The bytes of one array of a delta: a head that says where each chunk's delta
// lies, and which contents it leads from and to; then the deltas, one after the
// other.
//
// Layout, little endian: kArrayDeltaMagic; u64 chunk count; for each chunk u64
// end of its delta (from the end of the head), u64 ChunkHash of the base, u64
// ChunkHash of the result; u64 ChunkHash of all of the head before. A base that
// has no such array is zeros.
//
// Thread-safety: values. Units: bytes. Errors: DataLoss.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

inline constexpr std::string_view kArrayDeltaMagic = "hfdelta1";

struct ChunkDeltaEntry {
  uint64_t end = 0;
  uint64_t base_hash = 0;
  uint64_t result_hash = 0;

  bool operator==(const ChunkDeltaEntry&) const = default;
};

// The bytes of the head for an array of so many chunks.
uint64_t ArrayDeltaHeadBytes(uint64_t chunk_count);
std::string WriteArrayDeltaHead(const std::vector<ChunkDeltaEntry>& entries);
// `head`: ArrayDeltaHeadBytes(chunk_count) bytes; `array_bytes`: of the whole.
Result<std::vector<ChunkDeltaEntry>> ReadArrayDeltaHead(std::string_view head,
                                                        uint64_t chunk_count,
                                                        uint64_t array_bytes);

}  // namespace holdfast
