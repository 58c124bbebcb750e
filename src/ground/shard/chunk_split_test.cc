#include "ground/shard/chunk_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace holdfast {
namespace {

using Ranges = std::vector<ChunkRange>;

TEST(ChunksOfRank, SharesBytesAndNotChunks) {
  const std::vector<ArrayChunks> arrays = {{6, 100}, {1, 600}};
  EXPECT_EQ(*ChunksOfRank(arrays, 0, 2), (Ranges{{0, 0, 6}}));
  EXPECT_EQ(*ChunksOfRank(arrays, 1, 2), (Ranges{{1, 0, 1}}));
  EXPECT_EQ(*ChunksOfRank(arrays, 0, 1), (Ranges{{0, 0, 6}, {1, 0, 1}}));
  EXPECT_EQ(*ChunksOfRank(arrays, 1, 4), (Ranges{{0, 3, 6}}));
}

TEST(ChunksOfRank, SomeRanksHaveNothing) {
  EXPECT_EQ(*ChunksOfRank(std::vector<ArrayChunks>{{1, 8}}, 0, 3), Ranges());
  EXPECT_EQ(*ChunksOfRank(std::vector<ArrayChunks>{{1, 8}}, 1, 3),
            (Ranges{{0, 0, 1}}));
  EXPECT_EQ(*ChunksOfRank(std::vector<ArrayChunks>{{1, 8}}, 2, 3), Ranges());
  EXPECT_EQ(*ChunksOfRank({}, 0, 1), Ranges());
  EXPECT_EQ(*ChunksOfRank(std::vector<ArrayChunks>{{0, 8}, {2, 0}}, 1, 2),
            (Ranges{{1, 1, 2}}));
}

TEST(ChunksOfRank, RefusesWhatCannotBe) {
  const auto message = [](std::vector<ArrayChunks> arrays) {
    return ChunksOfRank(arrays, 0, 1).status().ToString();
  };
  EXPECT_EQ(message({{1, 1}, {-1, 8}}),
            InvalidArgumentError("array 1: -1 chunks of 8 bytes").ToString());
  EXPECT_EQ(message({{1, -8}}),
            InvalidArgumentError("array 0: 1 chunks of -8 bytes").ToString());
  constexpr int64_t kHuge = int64_t{1} << 40;
  EXPECT_EQ(message({{kHuge, kHuge}}),
            InvalidArgumentError("array 0: more than 2^62 bytes up to here")
                .ToString());
  const std::vector<ArrayChunks> most = {{1, int64_t{1} << 61},
                                         {1, int64_t{1} << 61}};
  EXPECT_EQ(*ChunksOfRank(most, (int64_t{1} << 62) - 1, int64_t{1} << 62),
            Ranges());
  EXPECT_EQ(*ChunksOfRank(most, 1, 2), (Ranges{{1, 0, 1}}));
}

// Applies the rule chunk by chunk: a chunk belongs to the rank whose share
// contains the chunk's middle.
std::vector<Ranges> SlowSplit(const std::vector<ArrayChunks>& arrays,
                              int64_t rank_count) {
  int64_t total = 0;
  for (const ArrayChunks& each : arrays) {
    total += each.chunk_count * std::max<int64_t>(each.chunk_bytes, 1);
  }
  std::vector<Ranges> split(rank_count);
  int64_t start = 0;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const int64_t weight = std::max<int64_t>(arrays[i].chunk_bytes, 1);
    for (int64_t c = 0; c < arrays[i].chunk_count; ++c, start += weight) {
      const int64_t rank = (2 * start + weight) * rank_count / (2 * total);
      Ranges& mine = split[rank];
      if (mine.empty() || mine.back().array != i) mine.push_back({i, c, c});
      mine.back().end = c + 1;
    }
  }
  return split;
}

TEST(ChunksOfRank, AgreesWithTheSlowTwinAndIsEven) {
  std::mt19937 random(1);
  const auto below = [&](int64_t n) {
    return std::uniform_int_distribution<int64_t>(0, n - 1)(random);
  };
  for (int round = 0; round < 500; ++round) {
    std::vector<ArrayChunks> arrays(below(8));
    int64_t largest = 0, total = 0;
    for (ArrayChunks& each : arrays) {
      each = {below(20), below(4) == 0 ? below(3) : below(1000)};
      largest = std::max(largest, std::max<int64_t>(each.chunk_bytes, 1));
      total += each.chunk_count * std::max<int64_t>(each.chunk_bytes, 1);
    }
    const int64_t rank_count = 1 + below(12);
    const std::vector<Ranges> want = SlowSplit(arrays, rank_count);
    for (int64_t rank = 0; rank < rank_count; ++rank) {
      const auto got = ChunksOfRank(arrays, rank, rank_count);
      ASSERT_TRUE(got.ok());
      ASSERT_EQ(*got, want[rank]) << "round " << round << " rank " << rank;
      int64_t bytes = 0;
      for (const ChunkRange& range : *got) {
        bytes += (range.end - range.begin) *
                 std::max<int64_t>(arrays[range.array].chunk_bytes, 1);
      }
      EXPECT_LE(bytes, total / rank_count + largest + 1);
    }
  }
}

}  // namespace
}  // namespace holdfast
