// RestorePlan: which stored bytes to read, in which order, and where each
// chunk's elements go. A plan is a value: it can be printed, and tested without
// a disk.
//
// Chunks are sorted by file and offset and joined with their neighbors into
// reads, so that many small values cost one read together, and a large value
// costs one read.
// Thread-safety: values. Units: bytes; chunks by their index in the grid.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/restore/restore_target.h"

namespace holdfast {

// Chunks [first, last) are read together.
struct PlannedRead {
  size_t first = 0;
  size_t last = 0;
  uint64_t offset = 0;
  uint64_t byte_count = 0;  // 0 for inline, missing, complete objects, parts
};

struct RestorePlan {
  // The wanted boxes; their views may be set, or moved, until the plan runs.
  std::vector<RestoreTarget> targets;
  std::vector<TargetGroup> groups;   // groups of the targets
  std::vector<PlannedChunk> chunks;  // inline first, then by file and offset
  std::vector<PlannedRead> reads;
};

// Gaps smaller than this between neighbors are read rather than skipped.
inline constexpr uint64_t kReadGapBytesMax = 16 << 10;
// A joined read is closed at this size, to keep every thread busy.
inline constexpr uint64_t kJoinedReadBytesMax = 1 << 20;
// The same limits for servers, where each read is a request. Larger chunks are
// read by themselves, and often in place.
inline constexpr uint64_t kRemoteGapBytesMax = 1'000'000;
inline constexpr uint64_t kRemoteJoinedBytesMax = 8 << 20;
inline constexpr uint64_t kRemoteAloneBytesMin = 4 << 20;
// How many inline and missing chunks a thread gets at a time.
inline constexpr size_t kInlineBatchCount = 128;

// Sorts `chunks` and joins them into reads; the plan has no targets yet.
RestorePlan JoinChunks(std::vector<PlannedChunk> chunks);

}  // namespace holdfast
