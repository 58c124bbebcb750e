#include "tree/match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace holdfast {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

struct Flat {
  explicit Flat(Tree value)
      : tree(std::move(value)),
        leaves(Flatten(tree).value()),
        items(MatchItems(leaves)) {}
  Tree tree;
  std::vector<FlatLeaf> leaves;
  std::vector<MatchItem> items;
};

TEST(Match, SameStructureWhateverTheLeaves) {
  const Flat wanted(Tree::Dict({{"a", 1}, {"b", Tree::List({"x", Tree()})}}));
  const Flat stored(Tree::Dict({{"a", "y"}, {"b", Tree::List({2, Tree()})}}));
  const MatchResult result = MatchStructure(wanted.items, stored.items);
  EXPECT_TRUE(result.same());
  EXPECT_THAT(result.pairs, ElementsAre(Pair(0, 0), Pair(1, 1), Pair(2, 2)));
  EXPECT_EQ(DescribeMatch(result, wanted.items, stored.items), "");
}

TEST(Match, ListsEachDifference) {
  const Flat wanted(Tree::Dict({{"a", 1},
                                {"e", Tree::Dict()},
                                {"n", 4},
                                {"s", Tree::List({7})},
                                {"w", 1}}));
  const Flat stored(Tree::Dict({{"a", 1},
                                {"e", Tree::List()},
                                {"n", Tree()},
                                {"s", Tree::Dict({{"0", 7}})},
                                {"x", 1}}));
  const MatchResult result = MatchStructure(wanted.items, stored.items);
  EXPECT_FALSE(result.same());
  EXPECT_THAT(result.missing, ElementsAre(4));
  EXPECT_THAT(result.unexpected, ElementsAre(4));
  EXPECT_EQ(DescribeMatch(result, wanted.items, stored.items),
            "missing in checkpoint: ('w',)\n"
            "not wanted: ('x',)\n"
            "different: ('e',): want Dict, got List\n"
            "different: ('n',): want leaf, got None\n"
            "different: ('s', '0'): element 1: want a sequence, got a dict\n");
}

TEST(Match, CutsLongLists) {
  const Flat wanted(Tree::List({1, 2, 3, 4}));
  const Flat stored(Tree::Dict({{"x", 1}}));
  const MatchResult result = MatchStructure(wanted.items, stored.items);
  EXPECT_EQ(DescribeMatch(result, wanted.items, stored.items, 1),
            "missing in checkpoint: ('0',)\nand 3 more\n"
            "not wanted: ('x',)\n");
}

// The slow twin: every item against every item.
TEST(Match, AgreesWithComparingAllPairs) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    const auto make = [&] {
      Tree tree = Tree::Dict();
      for (int i = 0; i < 20; ++i) {
        if (random() % 2) tree.Add(std::to_string(i), 1);
      }
      return Flat(std::move(tree));
    };
    const Flat wanted = make();
    const Flat stored = make();
    std::vector<std::pair<size_t, size_t>> pairs;
    for (size_t w = 0; w < wanted.items.size(); ++w) {
      for (size_t s = 0; s < stored.items.size(); ++s) {
        if (*wanted.items[w].path == *stored.items[s].path) {
          pairs.emplace_back(w, s);
        }
      }
    }
    const MatchResult result = MatchStructure(wanted.items, stored.items);
    EXPECT_EQ(result.pairs, pairs);
    EXPECT_EQ(result.missing.size() + pairs.size(), wanted.items.size());
    EXPECT_EQ(result.unexpected.size() + pairs.size(), stored.items.size());
    EXPECT_THAT(result.different, IsEmpty());
  }
}

}  // namespace
}  // namespace holdfast
