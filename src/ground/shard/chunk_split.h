// Shares the chunks of a list of arrays over ranks that can all read them: each
// rank gets one contiguous run of about equal bytes, and works it out by
// itself.
//
//   auto mine = ChunksOfRank({{.chunk_count = 6, .chunk_bytes = 100},
//                             {.chunk_count = 1, .chunk_bytes = 600}}, 1, 2);
//   // {{.array = 1, .begin = 0, .end = 1}}
//
// Every chunk belongs to exactly one rank: that in whose share of the bytes its
// middle lies. So no rank has more than its even share and one chunk of the
// largest size.
//
// Thread-safety: pure. Units: bytes, chunks in C order of an array's grid.
// Errors: InvalidArgument for counts or sizes below zero, or for more than 2^62
// bytes in all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

struct ArrayChunks {
  int64_t chunk_count = 0;
  int64_t chunk_bytes = 0;  // of each; one of 0 bytes counts as one byte
};

// Chunks `begin` to `end` - 1 of arrays[array].
struct ChunkRange {
  size_t array = 0;
  int64_t begin = 0;
  int64_t end = 0;

  bool operator==(const ChunkRange&) const = default;
};

// Those of `rank`, in the order of the arrays; none is empty.
// REQUIRES: 0 <= rank < rank_count.
Result<std::vector<ChunkRange>> ChunksOfRank(
    std::span<const ArrayChunks> arrays, int64_t rank, int64_t rank_count);

}  // namespace holdfast
