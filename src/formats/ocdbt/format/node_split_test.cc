#include "formats/ocdbt/format/node_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace holdfast::ocdbt {
namespace {

uint64_t RunBytes(const std::vector<uint64_t>& costs, uint64_t shared,
                  size_t start, size_t end) {
  return std::accumulate(costs.begin() + start, costs.begin() + end,
                         uint64_t{0}) -
         (end - start - 1) * shared;
}

// Splits by the rule as the format's description states it, and computes every
// sum anew.
std::vector<size_t> SlowSplit(const std::vector<uint64_t>& costs,
                              uint64_t shared, const SplitRule& rule) {
  const size_t n = costs.size();
  std::vector<size_t> ends;
  for (size_t start = 0; start < n; start = ends.back()) {
    const uint64_t all = RunBytes(costs, shared, start, n);
    uint64_t parts = 1;
    if (rule.node_bytes_max != 0) {
      while (parts * rule.node_bytes_max < all) ++parts;
    }
    const uint64_t target = (all + parts - 1) / parts;
    size_t end = start + 1;
    while (end != n) {
      const uint64_t bytes = RunBytes(costs, shared, start, end);
      if (bytes >= target && end - start >= rule.node_entries_min) {
        if (bytes > rule.node_bytes_max && rule.node_bytes_max != 0 &&
            end - start > rule.node_entries_min) {
          --end;
        }
        break;
      }
      ++end;
    }
    ends.push_back(end);
  }
  return ends;
}

TEST(NodeSplitTest, AgreesWithSlowTwin) {
  std::mt19937_64 random(21);
  for (int round = 0; round < 3000; ++round) {
    const uint64_t shared = random() % 20;
    std::vector<uint64_t> costs(1 + random() % 60);
    for (uint64_t& cost : costs) cost = shared + 16 + random() % 100;
    const SplitRule rule{.node_bytes_max = random() % 600,
                         .node_entries_min = 1 + random() % 2};
    ASSERT_EQ(SplitNodes(costs, shared, rule), SlowSplit(costs, shared, rule))
        << "round " << round;
  }
}

TEST(NodeSplitTest, WithoutLimitThereIsOneNode) {
  EXPECT_EQ(SplitNodes(std::vector<uint64_t>(100000, 1000), 0, {}),
            std::vector<size_t>{100000});
}

TEST(NodeSplitTest, NodeHasAtMostAMillionEntries) {
  const size_t count = kNodeEntriesMax + 10;
  EXPECT_EQ(SplitNodes(std::vector<uint64_t>(count, 20), 4, {}),
            (std::vector<size_t>{count / 2, count}));
}

TEST(NodeSplitTest, InteriorNodesHaveTwoEntriesButTheLast) {
  EXPECT_EQ(SplitNodes(std::vector<uint64_t>(5, 100), 0, {1, 2}),
            (std::vector<size_t>{2, 4, 5}));
}

TEST(NodeSplitTest, CostsCountKeyValueAndPath) {
  const DataFileTable files = {{"base/d/0123", 5}};
  LeafEntry leaf;
  leaf.key = "abc";
  leaf.SetInline("value");
  EXPECT_EQ(LeafEntryCost(leaf, files), 16u + 3 + 5);
  leaf.SetIndirect({0, 0, 1000});
  EXPECT_EQ(LeafEntryCost(leaf, files), 16u + 3 + 16 + 11);
  ChildEntry child;
  child.key = "abc";
  EXPECT_EQ(ChildEntryCost(child, files), 56u + 3 + 11);
}

}  // namespace
}  // namespace holdfast::ocdbt
