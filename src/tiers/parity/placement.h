// PlaceGroups: decides which ranks keep parity for each other.
//
// Ranks of one failure domain (a host, a rack, a power line) fail together, and
// their group should then not lose more of them than it has parity shards.
// Thread-safety: a pure function; every rank gets the same result.
// Errors: InvalidArgument for impossible sizes; FailedPrecondition, with what
// to do, if there are too few ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

struct GroupPlan {
  // The ranks of each group, ascending, which is the order of its members.
  std::vector<std::vector<int64_t>> groups;
  // If so many complete domains fail together, whichever they are, no group
  // loses more members than it has parity shards. If 0, one domain may be too
  // many.
  int64_t domain_losses_covered = 0;
};

// `domain_of_rank` has one name for each rank. `group_size` is the desired
// number of members per group, data and parity, at most 255. Groups differ by
// at most one member and have at least parity_count + 1; the numbers of members
// that one domain has in different groups also differ by at most one.
Result<GroupPlan> PlaceGroups(std::span<const std::string> domain_of_rank,
                              int64_t group_size, int64_t parity_count);

}  // namespace holdfast
