#include "formats/delta/chunk_delta.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "formats/delta/array_delta.h"

namespace holdfast {
namespace {

// How a chunk is coded depends on how many words change, and by how much.
TEST(ChunkDelta, EveryDTypeComesBackHoweverMuchChanges) {
  std::mt19937_64 random(3);
  ChunkDelta delta;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const WordKind kind = WordKindOf(dtype);
    ASSERT_EQ(DTypeBytes(dtype) % kind.word_bytes, 0U) << DTypeName(dtype);
    for (const size_t element_count : {1, 700, 40000}) {
      for (const int per_mille : {0, 1, 50, 600, 1000}) {
        for (const bool is_far : {false, true}) {
          std::string base(element_count * DTypeBytes(dtype), '\0');
          for (char& byte : base) byte = static_cast<char>(random());
          std::string next = base;
          const size_t step = static_cast<size_t>(kind.word_bytes);
          for (size_t at = 0; at < next.size(); at += step) {
            if (static_cast<int>(random() % 1000) >= per_mille) continue;
            next[at] = static_cast<char>(next[at] + 1);
            if (is_far) next[at + step - 1] = static_cast<char>(random());
          }
          const auto coded = delta.Encode(kind, base, next);
          ASSERT_TRUE(coded.ok()) << coded.status().ToString();
          EXPECT_EQ(coded->empty(), base == next);
          std::string got = base;
          ASSERT_TRUE(delta.Apply(kind, *coded, got).ok());
          ASSERT_EQ(got, next) << DTypeName(dtype) << " x " << element_count
                               << ", " << per_mille << " in 1000";
        }
      }
    }
  }
}

TEST(ChunkDelta, NewWeightsTakeNoMoreThanTheyWouldAlone) {
  std::mt19937_64 random(9);
  std::normal_distribution<float> normal;
  std::string next(400000, '\0');
  for (size_t i = 0; i < next.size(); i += 2) {
    const float value = normal(random);
    std::memcpy(&next[i], reinterpret_cast<const char*>(&value) + 2, 2);
  }
  ChunkDelta delta;
  const auto coded = delta.Encode(WordKindOf(DType::kBfloat16),
                                  std::string(400000, '\0'), next);
  ASSERT_TRUE(coded.ok());
  EXPECT_LT(coded->size(), 0.72 * next.size());
}

TEST(ChunkDelta, UnknownAndCutBytesAreDataLoss) {
  ChunkDelta delta;
  const WordKind kind = WordKindOf(DType::kFloat32);
  std::string base(40000, 'a'), next(40000, 'b');
  const auto coded = delta.Encode(kind, base, next);
  ASSERT_TRUE(coded.ok());
  for (const std::string& bad :
       {std::string("\x07zzz"), std::string("\0", 1), coded->substr(0, 1),
        coded->substr(0, coded->size() - 1)}) {
    std::string words = base;
    EXPECT_EQ(delta.Apply(kind, bad, words).code(), StatusCode::kDataLoss);
  }
}

TEST(ArrayDelta, HeadsComeBackAndDamageIsFound) {
  const std::vector<ChunkDeltaEntry> entries = {
      {0, 5, 5}, {17, 6, 7}, {17, 8, 8}, {100, 1, 2}};
  const std::string head = WriteArrayDeltaHead(entries);
  ASSERT_EQ(head.size(), ArrayDeltaHeadBytes(entries.size()));
  const uint64_t all = head.size() + 100;
  const auto read = ReadArrayDeltaHead(head, entries.size(), all);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(*read, entries);
  for (size_t i = 0; i < head.size(); ++i) {
    std::string bad = head;
    bad[i] ^= 0x10;
    EXPECT_EQ(ReadArrayDeltaHead(bad, entries.size(), all).status().code(),
              StatusCode::kDataLoss)
        << i;
  }
  for (const auto& [count, bytes] : {std::pair<uint64_t, uint64_t>(3, all),
                                     {5, all},
                                     {4, all - 1},
                                     {4, head.size() - 1}}) {
    EXPECT_EQ(ReadArrayDeltaHead(head, count, bytes).status().code(),
              StatusCode::kDataLoss);
  }
}

}  // namespace
}  // namespace holdfast
