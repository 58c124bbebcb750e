#include "tiers/parity/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Domains(int64_t domain_count, int64_t ranks_each) {
  std::vector<std::string> names;
  for (int64_t rank = 0; rank < domain_count * ranks_each; ++rank) {
    names.push_back("rack" + std::to_string(rank / ranks_each));
  }
  return names;
}

GroupPlan Placed(const std::vector<std::string>& domains, int64_t group_size,
                 int64_t parity_count) {
  auto plan = PlaceGroups(domains, group_size, parity_count);
  EXPECT_TRUE(plan.ok()) << plan.status().ToString();
  return *std::move(plan);
}

TEST(PlacementTest, RanksOfOneDomainGoToDifferentGroups) {
  // 4 racks of 2 ranks make two groups of 4, each with one rank of every rack.
  const GroupPlan plan = Placed(Domains(4, 2), 4, 1);
  ASSERT_EQ(plan.groups.size(), 2u);
  EXPECT_THAT(plan.groups[0], ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(plan.groups[1], ElementsAre(1, 3, 5, 7));
  EXPECT_EQ(plan.domain_losses_covered, 1);
  EXPECT_EQ(Placed(Domains(4, 2), 4, 2).domain_losses_covered, 2);
}

TEST(PlacementTest, ADomainThatIsTooLargeIsSaid) {
  // 2 racks of 4 ranks, in groups of 4, put two ranks of each rack in every
  // group.
  EXPECT_EQ(Placed(Domains(2, 4), 4, 1).domain_losses_covered, 0);
  EXPECT_EQ(Placed(Domains(2, 4), 4, 2).domain_losses_covered, 1);
  EXPECT_EQ(Placed(Domains(1, 8), 4, 3).domain_losses_covered, 0);
  EXPECT_EQ(Placed(Domains(8, 1), 4, 0).domain_losses_covered, 0);
}

TEST(PlacementTest, GroupsAreNearTheirAim) {
  const auto count_of = [](int64_t ranks, int64_t group_size, int64_t m) {
    return Placed(Domains(ranks, 1), group_size, m).groups.size();
  };
  EXPECT_EQ(count_of(2, 9, 1), 1u);
  EXPECT_EQ(count_of(16, 15, 1), 1u);
  EXPECT_EQ(count_of(23, 15, 1), 2u);
  EXPECT_EQ(count_of(300, 255, 1), 2u);
  EXPECT_EQ(count_of(5, 3, 2), 1u);  // two groups would be too small
  EXPECT_EQ(count_of(4096, 16, 2), 256u);
}

TEST(PlacementTest, EveryPlanKeepsItsPromises) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    const int64_t m = random() % 4;
    const int64_t group_size = m + 1 + random() % 20;
    const int64_t rank_count = m + 1 + random() % 200;
    const int64_t domain_count = 1 + random() % 60;
    std::vector<std::string> domains;
    for (int64_t i = 0; i < rank_count; ++i) {
      domains.push_back(std::to_string(random() % domain_count));
    }
    const GroupPlan plan = Placed(domains, group_size, m);
    std::vector<int64_t> all;
    size_t least = SIZE_MAX, most = 0;
    std::vector<std::map<std::string, int64_t>> counts;
    for (const auto& group : plan.groups) {
      EXPECT_TRUE(std::is_sorted(group.begin(), group.end()));
      all.insert(all.end(), group.begin(), group.end());
      least = std::min(least, group.size());
      most = std::max(most, group.size());
      auto& count = counts.emplace_back();
      for (const int64_t rank : group) ++count[domains[rank]];
    }
    std::sort(all.begin(), all.end());
    ASSERT_EQ(static_cast<int64_t>(all.size()), rank_count);
    for (int64_t i = 0; i < rank_count; ++i) ASSERT_EQ(all[i], i);
    EXPECT_LE(most - least, 1u);
    EXPECT_GT(static_cast<int64_t>(least), m);
    for (const std::string& domain : domains) {
      int64_t fewest = rank_count, highest = 0;
      for (auto& count : counts) {
        fewest = std::min(fewest, count[domain]);
        highest = std::max(highest, count[domain]);
      }
      ASSERT_LE(highest - fewest, 1);
    }
    // Counts how many of the fullest domains each group can lose, one after the
    // other.
    int64_t covered = rank_count;
    for (auto& count : counts) {
      int64_t lost = 0, gone = 0;
      while (true) {
        auto fullest = std::max_element(
            count.begin(), count.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
        lost += fullest->second;
        if (lost > m) break;
        fullest->second = 0;
        ++gone;
      }
      covered = std::min(covered, gone);
    }
    EXPECT_EQ(plan.domain_losses_covered, covered);
  }
}

TEST(PlacementTest, TooFewRanksAreToldWhatToDo) {
  const Status status = PlaceGroups(Domains(2, 1), 9, 2).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(),
              HasSubstr("need at least 3 ranks, and there are 2: run more"));
  EXPECT_EQ(PlaceGroups({}, 2, 1).status().code(),
            StatusCode::kFailedPrecondition);
  for (const auto& [size, m] : std::vector<std::pair<int64_t, int64_t>>{
           {2, 2}, {2, -1}, {256, 1}, {0, 0}}) {
    EXPECT_EQ(PlaceGroups(Domains(9, 1), size, m).status().code(),
              StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace holdfast
