#include "stores/storage/joined_read.h"

#include <gtest/gtest.h>

#include <random>

#include "stores/storage/memory_store.h"
#include "twins/counting_store.h"

namespace holdfast {
namespace {

std::string PatternText(size_t byte_count, int seed) {
  std::string text(byte_count, '\0');
  std::mt19937 random(seed);
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

TEST(ReadJoined, GivesWhatSingleReadsGive) {
  MemoryStore memory("memory");
  ASSERT_TRUE(memory.Write("a", PatternText(5000, 1)).ok());
  ASSERT_TRUE(memory.Write("b", PatternText(300, 2)).ok());
  for (int seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    std::vector<JoinedRange> ranges;
    for (int i = 0; i < 40; ++i) {
      const bool is_a = random() % 3 != 0;
      const uint64_t size = is_a ? 5000 : 300;
      const uint64_t offset = random() % size;
      ranges.push_back(
          {is_a ? "a" : "b", offset, random() % (size - offset + 1)});
    }
    const JoinOptions options{random() % 200, 1 + random() % 1000,
                              1 + random() % 3000};
    const auto joined = ReadJoined(memory, ranges, options);
    ASSERT_TRUE(joined.ok()) << joined.status().ToString();
    ASSERT_EQ(joined->size(), ranges.size());
    for (size_t i = 0; i < ranges.size(); ++i) {
      const auto single =
          memory.Read(ranges[i].key, {ranges[i].offset, ranges[i].byte_count});
      ASSERT_TRUE(single.ok());
      EXPECT_EQ((*joined)[i].view(), single->view());
    }
  }
}

TEST(ReadJoined, ReadsNeighboursOnceAndFarOnesApart) {
  MemoryStore memory("memory");
  ASSERT_TRUE(memory.Write("a", PatternText(4'000'000, 1)).ok());
  CountingStore counting(&memory);
  std::vector<JoinedRange> ranges;
  for (uint64_t i = 0; i < 1000; ++i) ranges.push_back({"a", i * 10, 5});
  ranges.push_back({"a", 3'000'000, 7});
  ASSERT_TRUE(ReadJoined(counting, ranges).ok());
  EXPECT_EQ(counting.counters().read_calls, 2u);
  EXPECT_EQ(counting.counters().read_bytes, 9995u + 7);
}

TEST(ReadJoined, RefusesWhatNoObjectHas) {
  MemoryStore memory("memory");
  ASSERT_TRUE(memory.Write("a", "abc").ok());
  EXPECT_EQ(ReadJoined(memory, {{"a", 2, 2}}).status().code(),
            StatusCode::kOutOfRange);
  EXPECT_EQ(ReadJoined(memory, {{"a", 2, kToEnd}}).status().code(),
            StatusCode::kOutOfRange);
  EXPECT_EQ(ReadJoined(memory, {{"b", 0, 1}}).status().code(),
            StatusCode::kNotFound);
}

}  // namespace
}  // namespace holdfast
