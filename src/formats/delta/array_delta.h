// The bytes of one array in a delta: a head, and then the chunks' deltas in
// order. For each chunk, the head records where its delta is, and the hashes of
// the chunk before and after the change.
//
// Layout, little endian: kArrayDeltaMagic; u64 chunk count; for each chunk, u64
// end of its delta (from the end of the head), u64 ChunkHash of the base and
// u64 ChunkHash of the result; u64 ChunkHash of the head up to here. If the
// base has no such array, its words are zeros.
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

// Returns the size of the head for an array of `chunk_count` chunks.
uint64_t ArrayDeltaHeadBytes(uint64_t chunk_count);
std::string WriteArrayDeltaHead(const std::vector<ChunkDeltaEntry>& entries);
// REQUIRES: `head` has ArrayDeltaHeadBytes(chunk_count) bytes. `array_bytes` is
// the size of head and deltas.
Result<std::vector<ChunkDeltaEntry>> ReadArrayDeltaHead(std::string_view head,
                                                        uint64_t chunk_count,
                                                        uint64_t array_bytes);

}  // namespace holdfast
