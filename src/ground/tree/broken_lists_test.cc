#include "ground/tree/broken_lists.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast {
namespace {

using Keys = std::vector<std::string>;
using Kinds = std::vector<KeyKind>;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr KeyKind kName = KeyKind::kName;
constexpr KeyKind kIndex = KeyKind::kIndex;

struct Leaf {
  Keys keys;
  Kinds kinds;
};

std::vector<Keys> Replace(std::vector<Leaf>& leaves) {
  std::vector<LeafKeys> borrowed;
  for (Leaf& leaf : leaves) borrowed.push_back({&leaf.keys, &leaf.kinds});
  return ReplaceBrokenLists(borrowed);
}

TEST(BrokenLists, WholeListsStay) {
  std::vector<Leaf> leaves = {{{"a", "1"}, {kName, kIndex}},
                              {{"a", "0", "b"}, {kName, kIndex, kName}},
                              {{"c", "5"}, {kName, kName}}};
  EXPECT_THAT(Replace(leaves), IsEmpty());
  EXPECT_THAT(leaves[0].kinds, ElementsAre(kName, kIndex));
  EXPECT_THAT(leaves[1].kinds, ElementsAre(kName, kIndex, kName));
}

TEST(BrokenLists, GapsAndNamesMakeDicts) {
  std::vector<Leaf> leaves = {{{"gap", "0"}, {kName, kIndex}},
                              {{"gap", "2"}, {kName, kIndex}},
                              {{"mixed", "0"}, {kName, kIndex}},
                              {{"mixed", "x"}, {kName, kName}},
                              {{"whole", "0", "1"}, {kName, kIndex, kIndex}}};
  EXPECT_THAT(Replace(leaves),
              ElementsAre(Keys{"gap"}, Keys{"mixed"}, Keys{"whole", "0"}));
  for (int i = 0; i < 4; ++i) {
    EXPECT_THAT(leaves[i].kinds, ElementsAre(kName, kName)) << i;
  }
  EXPECT_THAT(leaves[4].kinds, ElementsAre(kName, kIndex, kName));
}

}  // namespace
}  // namespace holdfast
