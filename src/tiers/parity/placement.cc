#include "tiers/parity/placement.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>

namespace holdfast {
namespace {

constexpr int64_t kGroupSizeMax = 255;

Status CheckPlacement(int64_t rank_count, int64_t group_size,
                      int64_t parity_count) {
  if (parity_count < 0 || group_size <= parity_count ||
      group_size > kGroupSizeMax) {
    return InvalidArgumentError(
        "groups that keep parity: want more members than parities, and at "
        "most " +
        std::to_string(kGroupSizeMax) + " (got " + std::to_string(group_size) +
        " and " + std::to_string(parity_count) + ")");
  }
  if (rank_count > parity_count) return {};
  return FailedPreconditionError(
      "groups that keep parity: " + std::to_string(parity_count) +
      " parities need at least " + std::to_string(parity_count + 1) +
      " ranks, and there are " + std::to_string(rank_count) +
      ": run more, or ask for fewer parities");
}

// Returns the group count that comes closest to the desired group size, within
// the limits on group sizes.
int64_t GroupCount(int64_t rank_count, int64_t group_size,
                   int64_t parity_count) {
  const int64_t nearest = (rank_count + group_size / 2) / group_size;
  const int64_t least = (rank_count + kGroupSizeMax - 1) / kGroupSizeMax;
  // This is at least 1, because CheckPlacement requires more ranks than parity
  // shards.
  const int64_t most = rank_count / (parity_count + 1);
  return std::min(std::max(nearest, least), most);
}

// Returns how many domains may fail, even the group's fullest, without too many
// losses.
int64_t LossesCovered(const std::vector<int64_t>& group,
                      std::span<const std::string> domain_of_rank,
                      int64_t parity_count) {
  std::map<std::string_view, int64_t> count_of;
  for (const int64_t rank : group) {
    ++count_of[domain_of_rank[static_cast<size_t>(rank)]];
  }
  std::vector<int64_t> counts;
  for (const auto& [domain, count] : count_of) counts.push_back(count);
  std::sort(counts.begin(), counts.end(), std::greater());
  int64_t covered = 0;
  for (int64_t lost = 0; const int64_t count : counts) {
    lost += count;
    if (lost > parity_count) break;
    ++covered;
  }
  return covered;
}

}  // namespace

Result<GroupPlan> PlaceGroups(std::span<const std::string> domain_of_rank,
                              int64_t group_size, int64_t parity_count) {
  const auto rank_count = static_cast<int64_t>(domain_of_rank.size());
  const Status checked = CheckPlacement(rank_count, group_size, parity_count);
  if (!checked.ok()) return checked;
  const auto group_count =
      static_cast<size_t>(GroupCount(rank_count, group_size, parity_count));
  // Ranks are dealt to the groups like cards, one domain after another.
  std::map<std::string_view, std::vector<int64_t>> ranks_of;
  for (int64_t rank = 0; rank < rank_count; ++rank) {
    ranks_of[domain_of_rank[static_cast<size_t>(rank)]].push_back(rank);
  }
  GroupPlan plan;
  plan.groups.resize(group_count);
  size_t next = 0;
  for (const auto& [domain, ranks] : ranks_of) {
    for (const int64_t rank : ranks) {
      plan.groups[next++ % group_count].push_back(rank);
    }
  }
  plan.domain_losses_covered = rank_count;
  for (std::vector<int64_t>& group : plan.groups) {
    std::sort(group.begin(), group.end());
    plan.domain_losses_covered =
        std::min(plan.domain_losses_covered,
                 LossesCovered(group, domain_of_rank, parity_count));
  }
  return plan;
}

}  // namespace holdfast
