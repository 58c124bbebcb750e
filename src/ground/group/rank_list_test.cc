#include "ground/group/rank_list.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

TEST(RankList, JoinsNeighbours) {
  EXPECT_EQ(RankList({3}), "rank 3");
  EXPECT_EQ(RankList({3, 4}), "ranks 3, 4");
  EXPECT_EQ(RankList({0, 1, 2, 5}), "ranks 0-2, 5");
  EXPECT_EQ(RankList({0, 2, 3, 5, 6, 7}), "ranks 0, 2, 3, 5-7");
}

TEST(RankList, EndsLongListsEarly) {
  std::vector<int64_t> odd;
  for (int64_t rank = 1; rank < 4096; rank += 2) odd.push_back(rank);
  EXPECT_EQ(RankList(odd), "ranks 1, 3, 5, 7, 9, 11, 13, 15 and 2040 more");
}

TEST(RanksByText, NamesThoseThatAgreeTogether) {
  RanksByText ranks;
  ranks.Add("full", 1);
  ranks.Add("lost", 2);
  ranks.Add("full", 3);
  EXPECT_EQ(ranks.Join(": "), "ranks 1, 3: full; rank 2: lost");
}

TEST(RanksByText, EndsManyTextsEarly) {
  RanksByText ranks;
  for (int64_t rank = 0; rank < 100; ++rank) {
    ranks.Add(std::to_string(rank / 2), rank);
  }
  const std::string text = ranks.Join(" at ");
  EXPECT_TRUE(text.starts_with("ranks 0, 1 at 0; ranks 2, 3 at 1; ")) << text;
  EXPECT_TRUE(text.ends_with("ranks 14, 15 at 7; and 84 ranks more")) << text;
}

}  // namespace
}  // namespace holdfast
