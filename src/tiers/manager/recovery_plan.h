// Decides whether a step can be rebuilt from what is left of it, and which rank
// does what.
//
// Every rank reports what it has (RankReport) to all others. All ranks make the
// same plan from the same reports, so no rank decides for the others.
// Thread-safety: values, pure functions.
// Errors: DataLoss for bytes that are not a report.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/status.h"
#include "tiers/manager/tier_record.h"
#include "tiers/parity/stripe_layout.h"

namespace holdfast {

// The state of one member's blocks on a rank. Indexes are ascending.
struct MemberReport {
  int64_t rank = 0;  // the member's rank in the save
  bool is_protected = false;
  std::vector<int64_t> bad_data;
  std::vector<int64_t> bad_parity;
};

// The sizes of a parity group's data. They are known without its records.
struct GroupShape {
  int64_t group = 0;
  std::vector<uint64_t> data_bytes;  // in member order
};

struct RankReport {
  std::vector<MemberReport> members;  // those with a readable group record
  std::vector<GroupShape> shapes;     // of the members' groups
  // The save's groups; empty if no member is left.
  std::vector<std::vector<int64_t>> groups;
  int64_t parity_count = 0;
  uint64_t block_bytes = 0;
};
std::string EncodeRankReport(const RankReport& report);
Result<RankReport> DecodeRankReport(std::string_view bytes);

// A member, and where it is and will be.
struct PlannedMember {
  int64_t rank = 0;            // its rank in the save
  int64_t source = -1;         // the rank that has it now; -1 if lost
  int64_t holder = 0;          // the rank that has it after recovery
  std::set<int64_t> bad_data;  // empty if it is lost
  std::set<int64_t> bad_parity;

  bool is_lost() const { return source < 0; }
  bool needs_work() const {
    return is_lost() || !bad_data.empty() || !bad_parity.empty();
  }
};

struct PlannedGroup {
  int64_t group = 0;
  std::vector<uint64_t> data_bytes;
  std::vector<PlannedMember> members;  // in member order
};

// Returns whether the shard can be read where it is. A shard without bytes is
// all zeros.
bool IsGood(const PlannedGroup& group, const StripeShard& shard);

struct RecoveryPlan {
  std::string why_not;  // empty if it can be recovered
  bool is_protected = false;
  int64_t parity_count = 0;
  uint64_t block_bytes = 0;
  std::vector<PlannedGroup> groups;

  std::vector<int64_t> lost_ranks() const;  // ranks in the save, ascending
  uint64_t bad_block_count() const;         // in members that are not lost
  // Returns the rank that will hold each member, by the member's rank in the
  // save.
  std::vector<int64_t> holders() const;
};
// Makes the plan. `reports` must come from all current ranks.
RecoveryPlan PlanRecovery(const std::vector<RankReport>& reports);

}  // namespace holdfast
