// Whether a step can be made again from what is left of it, and who does what.
//
// Every rank looks at what it has (RankReport), all ranks tell all, and each
// makes the same plan of the same reports: nobody decides for others.
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

// The part of one member of the save that a rank has. Blocks ascending.
struct MemberReport {
  int64_t rank = 0;  // of the save
  bool is_protected = false;
  std::vector<int64_t> bad_data;
  std::vector<int64_t> bad_parity;
};

// The facts known of a parity group without its records.
struct GroupShape {
  int64_t group = 0;
  std::vector<uint64_t> data_bytes;  // in member order
};

struct RankReport {
  std::vector<MemberReport> members;  // whose group record is readable
  std::vector<GroupShape> shapes;     // of their groups
  // The groups of the save; empty where no member is left.
  std::vector<std::vector<int64_t>> groups;
  int64_t parity_count = 0;
  uint64_t block_bytes = 0;
};
std::string EncodeRankReport(const RankReport& report);
Result<RankReport> DecodeRankReport(std::string_view bytes);

// One member, and where it is.
struct PlannedMember {
  int64_t rank = 0;            // of the save
  int64_t source = -1;         // the rank that has it now; -1: lost
  int64_t holder = 0;          // the rank that has it when all is done
  std::set<int64_t> bad_data;  // of a lost one: none
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

// Whether the shard can be read where it is. One without bytes is zeros.
bool IsGood(const PlannedGroup& group, const StripeShard& shard);

struct RecoveryPlan {
  std::string why_not;  // empty: it can be
  bool is_protected = false;
  int64_t parity_count = 0;
  uint64_t block_bytes = 0;
  std::vector<PlannedGroup> groups;

  std::vector<int64_t> lost_ranks() const;  // of the save, ascending
  uint64_t bad_block_count() const;         // of members that are not lost
  // By rank of the save.
  std::vector<int64_t> holders() const;
};
// `reports`: of all ranks that there are now.
RecoveryPlan PlanRecovery(const std::vector<RankReport>& reports);

}  // namespace holdfast
