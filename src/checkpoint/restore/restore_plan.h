// RestorePlan: which stored bytes to read, in which order, and where each
// chunk's elements go. A plan is a value: it can be printed and tested without
// a disk.
//
// Chunks are sorted by file and offset and joined into reads of neighbours, so
// that many small values cost one read, and large ones a read each.
// Thread-safety: values. Units: bytes; chunks by their index in the grid.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "storage/store.h"
#include "tensor/box.h"

namespace holdfast {

// One stored chunk that is wanted.
struct PlannedChunk {
  uint32_t target = 0;  // number of the wanted array
  Box box;              // the part of the array it covers
  ObjectLocation location;
  bool is_missing = false;  // filled with the fill value
  // Decoded bytes of the part that is wanted and can be read by itself; 0: the
  // whole chunk is read.
  uint64_t part_bytes = 0;
};

// Chunks [first, last) read together.
struct PlannedRead {
  size_t first = 0;
  size_t last = 0;
  uint64_t offset = 0;
  uint64_t byte_count = 0;  // 0 for inline, missing, whole objects, parts
};

struct RestorePlan {
  std::vector<PlannedChunk> chunks;  // inline first, then by file and offset
  std::vector<PlannedRead> reads;
};

// Neighbours closer than this are read through rather than skipped.
inline constexpr uint64_t kReadGapBytesMax = 16 << 10;
// A joined read is closed at this size, to keep every thread busy.
inline constexpr uint64_t kJoinedReadBytesMax = 1 << 20;
// The same where each read is a request to a server. Larger chunks are read
// alone, and often in place.
inline constexpr uint64_t kRemoteGapBytesMax = 1'000'000;
inline constexpr uint64_t kRemoteJoinedBytesMax = 8 << 20;
inline constexpr uint64_t kRemoteAloneBytesMin = 4 << 20;
// Inline and missing chunks handed to a thread at a time.
inline constexpr size_t kInlineBatchCount = 128;

// Sorts `chunks` and joins them into reads.
RestorePlan MakeRestorePlan(std::vector<PlannedChunk> chunks);

}  // namespace holdfast
