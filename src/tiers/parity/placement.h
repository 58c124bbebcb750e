// PlaceGroups: decides which ranks keep parity for each other.
//
// Ranks in one failure domain (a host, a rack, a power line) fail together. A
// group should then not lose more members than it has parity shards.
// Thread-safety: a pure function; every rank gets the same result.
// Errors: InvalidArgument for invalid sizes; FailedPrecondition, with what to
// do, if there are too few ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

struct GroupPlan {
  // Each group's ranks, ascending. This is also the order of its members.
  std::vector<std::vector<int64_t>> groups;
  // If this many complete domains fail together, whichever they are, no group
  // loses more members than it has parity shards. If 0, the failure of a single
  // domain may already be too much.
  int64_t domain_losses_covered = 0;
};

// Places the ranks. `domain_of_rank` has each rank's domain. `group_size` is
// the desired number of members per group, for data and parity, at most 255.
// The sizes of the groups differ by at most one, and are at least parity_count
// + 1. The numbers of members that one domain has in different groups also
// differ by at most one.
Result<GroupPlan> PlaceGroups(std::span<const std::string> domain_of_rank,
                              int64_t group_size, int64_t parity_count);

}  // namespace holdfast
