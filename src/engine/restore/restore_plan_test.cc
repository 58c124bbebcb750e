#include "engine/restore/restore_plan.h"

#include <gtest/gtest.h>

#include <random>

#include "stores/storage/memory_store.h"

namespace holdfast {
namespace {

PlannedChunk Ranged(uint32_t target, std::string key, uint64_t offset,
                    uint64_t byte_count) {
  PlannedChunk chunk;
  chunk.group = target;
  chunk.location.key = std::move(key);
  chunk.location.offset = offset;
  chunk.location.byte_count = byte_count;
  return chunk;
}

PlannedChunk Inline(uint32_t target) {
  PlannedChunk chunk;
  chunk.group = target;
  chunk.location.inline_value = Bytes(std::string("x"));
  return chunk;
}

TEST(RestorePlan, JoinsNeighboursInOffsetOrder) {
  const RestorePlan plan =
      JoinChunks({Ranged(0, "d/b", 0, 10), Ranged(1, "d/a", 100, 50),
                  Ranged(2, "d/a", 0, 100), Inline(3)});
  ASSERT_EQ(plan.reads.size(), 3u);
  EXPECT_EQ(plan.chunks[plan.reads[0].first].group, 3u);
  EXPECT_EQ(plan.chunks[plan.reads[1].first].group, 2u);
  EXPECT_EQ(plan.reads[1].last - plan.reads[1].first, 2u);
  EXPECT_EQ(plan.reads[1].offset, 0u);
  EXPECT_EQ(plan.reads[1].byte_count, 150u);
  EXPECT_EQ(plan.reads[2].byte_count, 10u);
}

TEST(RestorePlan, LargeChunksAndFarNeighboursAreReadAlone) {
  const RestorePlan plan = JoinChunks(
      {Ranged(0, "d", 0, kJoinedReadBytesMax),
       Ranged(1, "d", kJoinedReadBytesMax, 1),
       Ranged(2, "d", kJoinedReadBytesMax + 2 + kReadGapBytesMax, 1)});
  EXPECT_EQ(plan.reads.size(), 3u);
}

// Every chunk is in exactly one read, and inside its byte range.
TEST(RestorePlan, CoversEveryChunkOnce) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<PlannedChunk> chunks;
    const int count = random() % 400;
    for (int i = 0; i < count; ++i) {
      if (random() % 4 == 0) {
        chunks.push_back(Inline(i));
      } else {
        chunks.push_back(Ranged(i, std::to_string(random() % 3),
                                random() % 10'000'000, random() % 300'000));
      }
    }
    const RestorePlan plan = JoinChunks(std::move(chunks));
    size_t next = 0;
    for (const PlannedRead& read : plan.reads) {
      ASSERT_EQ(read.first, next);
      ASSERT_LT(read.first, read.last);
      next = read.last;
      for (size_t i = read.first; i < read.last; ++i) {
        const ObjectLocation& location = plan.chunks[i].location;
        if (location.inline_value) continue;
        EXPECT_GE(location.offset, read.offset);
        EXPECT_LE(location.offset + location.byte_count,
                  read.offset + read.byte_count);
      }
    }
    ASSERT_EQ(next, plan.chunks.size());
  }
}

class PlanFarStore final : public MemoryStore {
 public:
  PlanFarStore() : MemoryStore("far") {}
  int requests_in_flight() const override { return 16; }
};

TEST(RestorePlan, FromServersNeighboursAreJoinedOverWiderGaps) {
  PlanFarStore far;
  MemoryStore near("near");
  for (Store* store : {static_cast<Store*>(&far), static_cast<Store*>(&near)}) {
    std::vector<PlannedChunk> chunks;
    for (uint32_t i = 0; i < 20; ++i) {
      chunks.push_back(Ranged(i, "d/a", i * 1'000'000, 100'000));
    }
    chunks.push_back(Ranged(20, "d/b", 0, 5 << 20));
    chunks.push_back(Ranged(21, "d/b", 5 << 20, 10));
    for (PlannedChunk& chunk : chunks) chunk.location.store = store;
    const RestorePlan plan = JoinChunks(std::move(chunks));
    // 8 MiB hold nine chunks that are a megabyte apart.
    EXPECT_EQ(plan.reads.size(), store == &far ? 3u + 2 : 20u + 2);
    for (const PlannedRead& read : plan.reads) {
      EXPECT_LE(read.byte_count, kRemoteJoinedBytesMax);
    }
  }
}

}  // namespace
}  // namespace holdfast
