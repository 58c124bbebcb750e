// Distributes the chunks of a list of arrays over ranks that can all read them:
// each rank gets one contiguous run of about equal bytes, and computes it
// without asking the others.
//
//   auto mine = ChunksOfRank({{.chunk_count = 6, .chunk_bytes = 100},
//                             {.chunk_count = 1, .chunk_bytes = 600}}, 1, 2);
//   // {{.array = 1, .begin = 0, .end = 1}}
//
// Every chunk belongs to exactly one rank: the rank whose share of the bytes
// contains the middle of the chunk. So no rank has more than its even share
// plus one chunk of the largest size.
//
// Thread-safety: pure. Units: bytes, chunks in C order of an array's grid.
// Errors: InvalidArgument for counts or sizes below zero, or for more than 2^62
// bytes in total.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

struct ArrayChunks {
  int64_t chunk_count = 0;
  int64_t chunk_bytes = 0;  // of each; a size of 0 counts as one byte
};

// Chunks `begin` to `end` - 1 of arrays[array].
struct ChunkRange {
  size_t array = 0;
  int64_t begin = 0;
  int64_t end = 0;

  bool operator==(const ChunkRange&) const = default;
};

// Returns the chunks of `rank`, in the order of the arrays; no range is empty.
// REQUIRES: 0 <= rank < rank_count.
Result<std::vector<ChunkRange>> ChunksOfRank(
    std::span<const ArrayChunks> arrays, int64_t rank, int64_t rank_count);

}  // namespace holdfast
