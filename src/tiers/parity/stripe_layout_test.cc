#include "tiers/parity/stripe_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <utility>

#include "tiers/parity/erasure_code.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using Block = std::tuple<int64_t, bool, int64_t>;  // member, is_parity, block

Block BlockOf(const StripeShard& shard) {
  return {shard.member, shard.is_parity, shard.block};
}

StripeLayout Laid(std::vector<uint64_t> data_bytes, int64_t parity_count,
                  uint64_t block_bytes) {
  auto layout =
      StripeLayout::Make(std::move(data_bytes), parity_count, block_bytes);
  EXPECT_TRUE(layout.ok()) << layout.status().ToString();
  return *std::move(layout);
}

TEST(StripeLayoutTest, ASmallGroupByHand) {
  // g = 3, n = 2, m = 1, blocks of 10 bytes.
  const StripeLayout layout = Laid({25, 20, 7}, 1, 10);
  EXPECT_EQ(layout.member_count(), 3);
  EXPECT_EQ(layout.data_count(), 2);
  EXPECT_EQ(layout.data_block_count(0), 3);
  EXPECT_EQ(layout.data_block_count(2), 1);
  // Member 0's block 0 is in row 0 at position j = 0, with t = (0 - 1 - 0) mod
  // 3 = 2. So parity is on member 2, position 0 on member 0, position 1 on
  // member 1.
  const auto stripe = layout.OfData(0, 0);
  EXPECT_EQ(stripe.own, 0);
  EXPECT_EQ(stripe.byte_count, 10u);
  ASSERT_EQ(stripe.shards.size(), 3u);
  EXPECT_EQ(BlockOf(stripe.shards[0]), Block(0, false, 0));
  EXPECT_EQ(BlockOf(stripe.shards[1]), Block(1, false, 1));
  EXPECT_EQ(BlockOf(stripe.shards[2]), Block(2, true, 0));
  // Row 1 has only member 0's block 2, with 5 bytes: t = 2, so parity is on
  // member 2 again.
  const auto last = layout.OfData(0, 2);
  EXPECT_EQ(last.byte_count, 5u);
  EXPECT_EQ(last.shards[0].offset, 20u);
  EXPECT_EQ(last.shards[0].byte_count, 5u);
  EXPECT_EQ(last.shards[1].byte_count, 0u);
  EXPECT_EQ(BlockOf(last.shards[2]), Block(2, true, 1));
  EXPECT_EQ(last.shards[2].offset, 10u);
  EXPECT_EQ(layout.parity_bytes(2), 15u);
  EXPECT_EQ(layout.parity_block_count(2), 2);
  EXPECT_EQ(layout.parity_bytes(0), 10u);  // t = 0: blocks (1,0) and (2,1)
  EXPECT_EQ(layout.parity_bytes(1), 10u);
}

// Checks that no block is in two stripes, and that every stripe with bytes has
// its parity.
void CheckStripes(const std::map<std::vector<Block>, int64_t>& stripes,
                  const std::set<Block>& seen) {
  std::set<Block> in_stripes;
  for (const auto& [blocks, count] : stripes) {
    int64_t asked = 0;
    for (const Block& block : blocks) {
      ASSERT_TRUE(in_stripes.insert(block).second);
      asked += seen.count(block);
    }
    ASSERT_EQ(asked, count);
  }
}

// Checks the header's rules for all blocks of a group.
void CheckLayout(const std::vector<uint64_t>& sizes, int64_t m,
                 uint64_t block_bytes) {
  const StripeLayout layout = Laid(sizes, m, block_bytes);
  const auto g = static_cast<int64_t>(sizes.size());
  const int64_t n = g - m;
  std::map<std::vector<Block>, int64_t> stripes;  // and how often requested
  std::set<Block> seen;
  int64_t blocks_max = 0;
  const auto check = [&](const StripeLayout::Stripe& stripe,
                         const Block& asked) {
    std::set<int64_t> members;
    std::vector<Block> blocks;
    uint64_t byte_count = 0;
    ASSERT_EQ(static_cast<int64_t>(stripe.shards.size()), g);
    for (int64_t s = 0; s < g; ++s) {
      const StripeShard& shard = stripe.shards[static_cast<size_t>(s)];
      ASSERT_EQ(shard.is_parity, s >= n);
      ASSERT_EQ(shard.offset, static_cast<uint64_t>(shard.block) * block_bytes);
      members.insert(shard.member);
      blocks.push_back(BlockOf(shard));
      const uint64_t size = shard.is_parity
                                ? layout.parity_bytes(shard.member)
                                : sizes[static_cast<size_t>(shard.member)];
      const uint64_t there =
          shard.offset < size ? std::min(block_bytes, size - shard.offset) : 0;
      if (shard.is_parity) {
        ASSERT_EQ(shard.byte_count, stripe.byte_count);
        ASSERT_LE(shard.byte_count, there);  // equal for the last block
      } else {
        ASSERT_EQ(shard.byte_count, there);
        byte_count = std::max(byte_count, there);
      }
    }
    ASSERT_EQ(static_cast<int64_t>(members.size()), g);
    ASSERT_EQ(stripe.byte_count, byte_count);
    ASSERT_EQ(blocks[static_cast<size_t>(stripe.own)], asked);
    ++stripes[blocks];
    ASSERT_TRUE(seen.insert(asked).second);
  };
  for (int64_t i = 0; i < g; ++i) {
    blocks_max = std::max(blocks_max, layout.data_block_count(i));
    for (int64_t k = 0; k < layout.data_block_count(i); ++k) {
      check(layout.OfData(i, k), {i, false, k});
    }
  }
  for (int64_t i = 0; i < g; ++i) {
    const int64_t count = layout.parity_block_count(i);
    for (int64_t q = 0; q < count; ++q) {
      check(layout.OfParity(i, q), {i, true, q});
    }
    ASSERT_LE(count, (blocks_max + n - 1) / n * m);
    if (count == 0) {
      ASSERT_EQ(layout.parity_bytes(i), 0u);
      continue;
    }
    const auto last = layout.OfParity(i, count - 1);
    ASSERT_GT(last.byte_count, 0u);
    ASSERT_EQ(layout.parity_bytes(i),
              static_cast<uint64_t>(count - 1) * block_bytes + last.byte_count);
  }
  CheckStripes(stripes, seen);
}

TEST(StripeLayoutTest, EveryBlockIsInOneStripeAndNoMemberTwice) {
  std::mt19937 random(5);
  for (const auto& [g, m] : std::vector<std::pair<int, int>>{
           {1, 0}, {2, 1}, {3, 1}, {4, 2}, {5, 4}, {9, 1}, {16, 2}, {7, 3}}) {
    for (int round = 0; round < 20; ++round) {
      std::vector<uint64_t> sizes;
      for (int i = 0; i < g; ++i) {
        sizes.push_back(random() % 4 == 0 ? 0 : random() % 400);
      }
      SCOPED_TRACE(std::to_string(g) + " " + std::to_string(m));
      CheckLayout(sizes, m, 1 + random() % 30);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(StripeLayoutTest, EqualMembersHaveEqualParity) {
  const StripeLayout layout =
      Laid(std::vector<uint64_t>(16, 14 * 10 * 64), 2, 64);
  for (int64_t i = 0; i < 16; ++i) {
    EXPECT_EQ(layout.parity_bytes(i), 2u * 10 * 64);
  }
}

// Rebuilds real bytes, shard by shard, from files that are cut as the layout
// says.
TEST(StripeLayoutTest, LostMembersComeBackByTheCode) {
  std::mt19937 random(9);
  const std::vector<uint64_t> sizes = {100, 0, 64, 333, 17, 200};
  constexpr int64_t kParities = 2;
  const StripeLayout layout = Laid(sizes, kParities, 32);
  const auto code = ErasureCode::Make(layout.data_count(), kParities);
  ASSERT_TRUE(code.ok());
  std::vector<std::string> data, parity;
  for (int64_t i = 0; i < 6; ++i) {
    std::string text(sizes[static_cast<size_t>(i)], '\0');
    for (char& c : text) c = static_cast<char>(random());
    data.push_back(text);
    parity.emplace_back(layout.parity_bytes(i), '\0');
  }
  const auto bytes_of = [&](const StripeShard& shard) {
    std::string& file =
        (shard.is_parity ? parity : data)[static_cast<size_t>(shard.member)];
    const size_t offset = std::min<size_t>(shard.offset, file.size());
    return std::span(file).subspan(offset, shard.byte_count);
  };
  for (int64_t i = 0; i < 6; ++i) {
    for (int64_t q = 0; q < layout.parity_block_count(i); ++q) {
      const auto stripe = layout.OfParity(i, q);
      const auto own = bytes_of(stripe.shards[static_cast<size_t>(stripe.own)]);
      for (int64_t j = 0; j < layout.data_count(); ++j) {
        AddProduct(code->coefficient(stripe.own - layout.data_count(), j),
                   bytes_of(stripe.shards[static_cast<size_t>(j)]), own);
      }
    }
  }
  const auto remade = [&](const StripeLayout::Stripe& stripe, int64_t lost_a,
                          int64_t lost_b) {
    std::vector<int64_t> left;
    for (int64_t s = 0; s < 6; ++s) {
      const int64_t member = stripe.shards[static_cast<size_t>(s)].member;
      if (member != lost_a && member != lost_b) left.push_back(s);
    }
    const auto terms = code->TermsOf(stripe.own, left);
    EXPECT_TRUE(terms.ok());
    std::string sum(stripe.byte_count, '\0');
    for (const auto& term : *terms) {
      AddProduct(term.coefficient,
                 bytes_of(stripe.shards[static_cast<size_t>(term.shard)]), sum);
    }
    return sum;
  };
  for (int64_t a = 0; a < 6; ++a) {
    for (int64_t b = 0; b < 6; ++b) {
      for (int64_t k = 0; k < layout.data_block_count(a); ++k) {
        const auto stripe = layout.OfData(a, k);
        const auto own =
            bytes_of(stripe.shards[static_cast<size_t>(stripe.own)]);
        EXPECT_EQ(remade(stripe, a, b).substr(0, own.size()),
                  std::string(own.begin(), own.end()));
      }
      for (int64_t q = 0; q < layout.parity_block_count(a); ++q) {
        const auto stripe = layout.OfParity(a, q);
        const auto own =
            bytes_of(stripe.shards[static_cast<size_t>(stripe.own)]);
        EXPECT_EQ(remade(stripe, a, b), std::string(own.begin(), own.end()));
      }
    }
  }
}

TEST(StripeLayoutTest, WhatCannotBeIsRefused) {
  const auto code_of = [](std::vector<uint64_t> sizes, int64_t m,
                          uint64_t block_bytes) {
    return StripeLayout::Make(std::move(sizes), m, block_bytes).status().code();
  };
  constexpr uint64_t kMost = uint64_t{1} << 53;
  EXPECT_EQ(code_of({}, 0, 1), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of({1, 1}, 2, 1), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of({1, 1}, -1, 1), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of({1, 1}, 1, 0), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of({1, 1}, 1, (uint64_t{1} << 40) + 1),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of({1, kMost + 1}, 1, 1), StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of(std::vector<uint64_t>(256, 1), 1, 1),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of({1, kMost}, 1, uint64_t{1} << 40), StatusCode::kOk);
  // The largest parity offset does not overflow.
  const StripeLayout large =
      Laid(std::vector<uint64_t>(255, kMost), 254, uint64_t{1} << 40);
  EXPECT_EQ(large.parity_bytes(0), kMost * 254);
}

}  // namespace
}  // namespace holdfast
