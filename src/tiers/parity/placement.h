// PlaceGroups: which ranks keep parity for each other.
//
// Ranks of one failure domain (a host, a rack, a power line) go together: their
// group must not lose more of them at once than it has parities.
// Thread-safety: a pure function; every rank gets the same answer.
// Errors: InvalidArgument for sizes that cannot be; FailedPrecondition where
// there are too few ranks, with what to do.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

struct GroupPlan {
  // The ranks of each, ascending: the order of its members.
  std::vector<std::vector<int64_t>> groups;
  // So many whole domains may go at once, whichever they are, and no group
  // loses more than its parities. 0: one domain may be too much.
  int64_t domain_losses_covered = 0;
};

// `domain_of_rank`: one name for each rank. `group_size`: members a group is
// aimed at, data and parity, at most 255. Groups differ by at most one member
// and have at least parity_count + 1; the members of one domain in different
// groups differ by at most one, too.
Result<GroupPlan> PlaceGroups(std::span<const std::string> domain_of_rank,
                              int64_t group_size, int64_t parity_count);

}  // namespace holdfast
