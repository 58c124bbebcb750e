#include "ground/shard/chunk_split.h"

#include <algorithm>
#include <cassert>
#include <string>

#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

using Int128 = __int128;

constexpr Int128 kBytesMax = Int128{1} << 62;

int64_t WeightOf(const ArrayChunks& chunks) {
  return std::max<int64_t>(chunks.chunk_bytes, 1);
}

Result<Int128> TotalBytes(std::span<const ArrayChunks> arrays) {
  Int128 total = 0;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const ArrayChunks& chunks = arrays[i];
    if (chunks.chunk_count < 0 || chunks.chunk_bytes < 0) {
      return InvalidArgumentError(
          "array " + std::to_string(i) + ": " +
          std::to_string(chunks.chunk_count) + " chunks of " +
          std::to_string(chunks.chunk_bytes) + " bytes");
    }
    total += Int128{chunks.chunk_count} * WeightOf(chunks);
    if (total > kBytesMax) {
      return InvalidArgumentError("array " + std::to_string(i) +
                                  ": more than 2^62 bytes up to here");
    }
  }
  return total;
}

// Counts the array's chunks whose middle lies before total * rank / rank_count.
// `start` is the offset of the array's first chunk in the bytes of all arrays.
// A chunk belongs to the rank whose part contains its middle, so every chunk
// has exactly one rank, and no rank needs to ask another.
int64_t ChunksBefore(const ArrayChunks& chunks, Int128 start, Int128 total,
                     int64_t rank, int64_t rank_count) {
  // All terms are doubled so that they are integers: the middle of chunk c is 2
  // start + (2 c + 1) weight.
  const Int128 weight = WeightOf(chunks);
  const Int128 cut = (2 * total * rank + rank_count - 1) / rank_count;
  const Int128 past_first = cut - 2 * start - weight;
  if (past_first <= 0) return 0;
  const Int128 count = (past_first + 2 * weight - 1) / (2 * weight);
  return static_cast<int64_t>(std::min(count, Int128{chunks.chunk_count}));
}

}  // namespace

Result<std::vector<ChunkRange>> ChunksOfRank(
    std::span<const ArrayChunks> arrays, int64_t rank, int64_t rank_count) {
  assert(0 <= rank && rank < rank_count);
  HF_ASSIGN_OR_RETURN(const Int128 total, TotalBytes(arrays));
  std::vector<ChunkRange> ranges;
  Int128 start = 0;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const ArrayChunks& chunks = arrays[i];
    const int64_t begin = ChunksBefore(chunks, start, total, rank, rank_count);
    const int64_t end =
        ChunksBefore(chunks, start, total, rank + 1, rank_count);
    if (begin < end) ranges.push_back({i, begin, end});
    start += Int128{chunks.chunk_count} * WeightOf(chunks);
  }
  return ranges;
}

}  // namespace holdfast
