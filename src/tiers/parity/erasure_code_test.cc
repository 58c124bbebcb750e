#include "tiers/parity/erasure_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <string>
#include <utility>

namespace holdfast {
namespace {

using ::testing::HasSubstr;

// The slow and obvious product, bit by bit.
uint8_t SlowProduct(uint8_t a, uint8_t b) {
  unsigned product = 0, shifted = a;
  for (int bit = 0; bit < 8; ++bit) {
    if ((b >> bit & 1) != 0) product ^= shifted;
    shifted <<= 1;
    if ((shifted & 0x100) != 0) shifted ^= 0x11D;
  }
  return static_cast<uint8_t>(product);
}

std::string RandomText(std::mt19937& random, size_t byte_count) {
  std::string text(byte_count, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

std::vector<std::string> Encoded(const ErasureCode& code,
                                 std::vector<std::string> shards) {
  for (int64_t p = 0; p < code.parity_count(); ++p) {
    std::string parity(shards[0].size(), '\0');
    for (int64_t j = 0; j < code.data_count(); ++j) {
      AddProduct(code.coefficient(p, j), shards[static_cast<size_t>(j)],
                 parity);
    }
    shards.push_back(std::move(parity));
  }
  return shards;
}

std::string SumOf(const std::vector<ErasureCode::Term>& terms,
                  const std::vector<std::string>& shards) {
  std::string sum(shards[0].size(), '\0');
  for (const auto& [shard, coefficient] : terms) {
    EXPECT_NE(coefficient, 0);
    AddProduct(coefficient, shards[static_cast<size_t>(shard)], sum);
  }
  return sum;
}

TEST(ErasureCodeTest, AddProductIsItsSlowTwin) {
  std::mt19937 random(1);
  for (int c = 0; c < 256; ++c) {
    for (const size_t byte_count : {0, 1, 15, 63, 64, 65, 127, 128, 1000}) {
      // The bytes are not aligned, and the target is longer than the source.
      const std::string source = RandomText(random, byte_count + 1);
      std::string target = RandomText(random, byte_count + 70);
      std::string want = target;
      for (size_t i = 0; i < byte_count; ++i) {
        want[i + 3] ^= static_cast<char>(SlowProduct(
            static_cast<uint8_t>(c), static_cast<uint8_t>(source[i + 1])));
      }
      AddProduct(static_cast<uint8_t>(c), std::span(source).subspan(1),
                 std::span(target).subspan(3));
      ASSERT_EQ(target, want) << c << " " << byte_count;
    }
  }
}

TEST(ErasureCodeTest, CoefficientsAreThoseOfTheFormat) {
  const auto code = ErasureCode::Make(5, 3);
  ASSERT_TRUE(code.ok());
  for (int64_t p = 0; p < 3; ++p) {
    for (int64_t j = 0; j < 5; ++j) {
      EXPECT_EQ(SlowProduct(code->coefficient(p, j),
                            static_cast<uint8_t>((5 + p) ^ j)),
                1);
    }
  }
  const auto one = ErasureCode::Make(254, 1);
  ASSERT_TRUE(one.ok());
  for (int64_t j = 0; j < 254; ++j) EXPECT_EQ(one->coefficient(0, j), 1);
}

// Checks that every shard is rebuilt from the others, whichever are lost.
void CheckAllLosses(int64_t n, int64_t m) {
  SCOPED_TRACE(std::to_string(n) + "+" + std::to_string(m));
  const auto code = ErasureCode::Make(n, m);
  ASSERT_TRUE(code.ok()) << code.status().ToString();
  std::mt19937 random(static_cast<unsigned>(n * 300 + m));
  std::vector<std::string> data;
  for (int64_t j = 0; j < n; ++j) data.push_back(RandomText(random, 67));
  const std::vector<std::string> shards = Encoded(*code, data);
  for (unsigned lost = 0; lost < 1u << (n + m); ++lost) {
    const bool is_enough = std::popcount(lost) <= m;
    if (std::popcount(lost) > m + 1) continue;
    std::vector<int64_t> left;
    for (int64_t s = 0; s < n + m; ++s) {
      if ((lost >> s & 1) == 0) left.push_back(s);
    }
    std::shuffle(left.begin(), left.end(), random);
    for (int64_t s = 0; s < n + m; ++s) {
      if ((lost >> s & 1) == 0) continue;
      const auto terms = code->TermsOf(s, left);
      ASSERT_EQ(terms.status().code(),
                is_enough ? StatusCode::kOk : StatusCode::kDataLoss);
      if (is_enough) {
        ASSERT_EQ(SumOf(*terms, shards), shards[static_cast<size_t>(s)]);
      }
    }
  }
}

TEST(ErasureCodeTest, WhateverIsLostComesBack) {
  for (const auto& [n, m] : std::vector<std::pair<int64_t, int64_t>>{{1, 0},
                                                                     {1, 1},
                                                                     {2, 1},
                                                                     {7, 1},
                                                                     {1, 3},
                                                                     {3, 2},
                                                                     {8, 2},
                                                                     {6, 4},
                                                                     {4, 6}}) {
    CheckAllLosses(n, m);
  }
}

TEST(ErasureCodeTest, LargeCodes) {
  std::mt19937 random(3);
  for (const auto& [n, m] : std::vector<std::pair<int64_t, int64_t>>{
           {251, 4}, {128, 127}, {14, 2}}) {
    const auto code = ErasureCode::Make(n, m);
    ASSERT_TRUE(code.ok());
    std::vector<std::string> data;
    for (int64_t j = 0; j < n; ++j) data.push_back(RandomText(random, 5));
    const std::vector<std::string> shards = Encoded(*code, data);
    std::vector<int64_t> all(static_cast<size_t>(n + m));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    for (int round = 0; round < 20; ++round) {
      std::shuffle(all.begin(), all.end(), random);
      const auto terms =
          code->TermsOf(all[0], std::span(all).subspan(static_cast<size_t>(m)));
      ASSERT_TRUE(terms.ok()) << terms.status().ToString();
      EXPECT_EQ(SumOf(*terms, shards), shards[static_cast<size_t>(all[0])]);
    }
  }
}

TEST(ErasureCodeTest, DataIsUsedBeforeParity) {
  const auto code = ErasureCode::Make(3, 2);
  ASSERT_TRUE(code.ok());
  const std::vector<int64_t> all = {4, 3, 2, 1, 0};
  const auto data = code->TermsOf(1, all);  // 1 is available, but not used
  ASSERT_TRUE(data.ok());
  ASSERT_EQ(data->size(), 3u);
  EXPECT_EQ((*data)[0].shard, 0);
  EXPECT_EQ((*data)[1].shard, 2);
  EXPECT_EQ((*data)[2].shard, 3);
  const auto parity = code->TermsOf(4, all);
  ASSERT_TRUE(parity.ok());
  ASSERT_EQ(parity->size(), 3u);
  for (int64_t j = 0; j < 3; ++j) {
    const auto& term = (*parity)[static_cast<size_t>(j)];
    EXPECT_EQ(term.shard, j);
    EXPECT_EQ(term.coefficient, code->coefficient(1, j));
  }
}

TEST(ErasureCodeTest, WhatCannotBeIsRefused) {
  for (const auto& [n, m] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 1},
                                                {-1, 1},
                                                {1, -1},
                                                {255, 1},
                                                {200, 56},
                                                {INT64_MAX, 1},
                                                {1, INT64_MAX}}) {
    EXPECT_EQ(ErasureCode::Make(n, m).status().code(),
              StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(ErasureCode::Make(255, 0).ok());
  const auto code = ErasureCode::Make(3, 2);
  ASSERT_TRUE(code.ok());
  const std::vector<int64_t> good = {0, 1, 2};
  for (const int64_t wanted : {-1, 5}) {
    EXPECT_EQ(code->TermsOf(wanted, good).status().code(),
              StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(code->TermsOf(0, std::vector<int64_t>{1, 2, 5}).status().code(),
            StatusCode::kInvalidArgument);
  // A shard that is named twice counts only once.
  const Status lost = code->TermsOf(0, std::vector<int64_t>{1, 2, 2}).status();
  EXPECT_EQ(lost.code(), StatusCode::kDataLoss);
  EXPECT_THAT(lost.message(), HasSubstr("got 2, want 3"));
}

}  // namespace
}  // namespace holdfast
