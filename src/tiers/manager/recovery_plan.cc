#include "tiers/manager/recovery_plan.h"

#include <algorithm>
#include <map>

#include "ground/base/status_macros.h"
#include "ground/base/string_coding.h"
#include "ground/group/rank_list.h"

namespace holdfast {
namespace {

void PutNumbers(std::string& out, const std::vector<int64_t>& numbers) {
  PutVarint(out, numbers.size());
  for (const int64_t number : numbers) PutVarint(out, number);
}

bool ReadNumbers(Cursor& cursor, std::vector<int64_t>& numbers) {
  uint64_t count = 0;
  if (!ReadVarint64(cursor, count) || count > cursor.remaining()) return false;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t number = 0;
    if (!ReadVarint64(cursor, number)) return false;
    numbers.push_back(static_cast<int64_t>(number));
  }
  return true;
}

template <typename Read>
bool ReadList(Cursor& cursor, const Read& read) {
  uint64_t count = 0;
  if (!ReadVarint64(cursor, count) || count > cursor.remaining()) return false;
  for (uint64_t i = 0; i < count; ++i) {
    if (!read()) return false;
  }
  return true;
}

bool ReadReport(Cursor& cursor, RankReport& report) {
  uint64_t parity_count = 0;
  const bool is_read =
      ReadList(
          cursor,
          [&] {
            MemberReport& member = report.members.emplace_back();
            uint64_t rank = 0;
            uint8_t is_protected = 0;
            if (!ReadVarint64(cursor, rank) || !cursor.ReadByte(is_protected)) {
              return false;
            }
            member.rank = static_cast<int64_t>(rank);
            member.is_protected = is_protected != 0;
            return ReadNumbers(cursor, member.bad_data) &&
                   ReadNumbers(cursor, member.bad_parity);
          }) &&
      ReadList(cursor,
               [&] {
                 GroupShape& shape = report.shapes.emplace_back();
                 uint64_t group = 0;
                 if (!ReadVarint64(cursor, group)) return false;
                 shape.group = static_cast<int64_t>(group);
                 return ReadList(cursor, [&] {
                   return ReadVarint64(cursor, shape.data_bytes.emplace_back());
                 });
               }) &&
      ReadList(
          cursor,
          [&] { return ReadNumbers(cursor, report.groups.emplace_back()); }) &&
      ReadVarint64(cursor, parity_count) &&
      ReadVarint64(cursor, report.block_bytes) && cursor.remaining() == 0;
  report.parity_count = static_cast<int64_t>(parity_count);
  return is_read;
}

bool AreBlocks(const std::vector<int64_t>& blocks, int64_t block_count) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    const int64_t least = i == 0 ? 0 : blocks[i - 1] + 1;
    if (blocks[i] < least || blocks[i] >= block_count) return false;
  }
  return true;
}

// Returns whether all reported blocks of the member exist in its group.
bool IsSoundMember(const RankReport& report, const MemberReport& member) {
  for (const GroupShape& shape : report.shapes) {
    const std::vector<int64_t>& ranks = report.groups[shape.group];
    const auto found = std::find(ranks.begin(), ranks.end(), member.rank);
    if (found == ranks.end()) continue;
    const auto layout = StripeLayout::Make(
        shape.data_bytes, report.parity_count, report.block_bytes);
    const int64_t index = found - ranks.begin();
    return layout.ok() &&
           AreBlocks(member.bad_data, layout->data_block_count(index)) &&
           AreBlocks(member.bad_parity, layout->parity_block_count(index));
  }
  return false;
}

// Returns whether the numbers in the report are valid. Other ranks use them
// without further checks.
bool IsSound(const RankReport& report) {
  if (report.groups.empty()) {
    return report.members.empty() && report.shapes.empty();
  }
  const auto is_shape = [&](const GroupShape& shape) {
    return shape.group >= 0 && shape.group < std::ssize(report.groups) &&
           shape.data_bytes.size() == report.groups[shape.group].size();
  };
  return AreGroups(report.groups) &&
         std::all_of(report.shapes.begin(), report.shapes.end(), is_shape) &&
         std::all_of(report.members.begin(), report.members.end(),
                     [&](const MemberReport& member) {
                       return IsSoundMember(report, member);
                     });
}

// Finds the best copy of each member: the copy with the fewest damaged data
// blocks. If several copies have the fewest, it is the lowest rank's.
void FindSources(const std::vector<RankReport>& reports, RecoveryPlan& plan) {
  std::map<int64_t, std::pair<int64_t, const MemberReport*>> best;
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    for (const MemberReport& member : reports[rank].members) {
      plan.is_protected |= member.is_protected;
      auto& [source, chosen] = best[member.rank];
      if (chosen != nullptr &&
          chosen->bad_data.size() <= member.bad_data.size()) {
        continue;
      }
      source = static_cast<int64_t>(rank);
      chosen = &member;
    }
  }
  for (PlannedGroup& group : plan.groups) {
    for (PlannedMember& member : group.members) {
      const auto found = best.find(member.rank);
      if (found == best.end()) continue;
      const auto& [source, chosen] = found->second;
      member.source = member.holder = source;
      member.bad_data.insert(chosen->bad_data.begin(), chosen->bad_data.end());
      member.bad_parity.insert(chosen->bad_parity.begin(),
                               chosen->bad_parity.end());
    }
  }
}

// Assigns each lost member to the rank with its number, if that rank holds no
// member; otherwise to the rank that holds the fewest members.
void ChooseHolders(size_t rank_count, RecoveryPlan& plan) {
  std::vector<int64_t> counts(rank_count);
  std::vector<PlannedMember*> lost;
  for (PlannedGroup& group : plan.groups) {
    for (PlannedMember& member : group.members) {
      if (member.is_lost()) {
        lost.push_back(&member);
      } else {
        ++counts[member.source];
      }
    }
  }
  std::sort(lost.begin(), lost.end(),
            [](const auto* a, const auto* b) { return a->rank < b->rank; });
  for (PlannedMember* member : lost) {
    member->holder =
        std::min_element(counts.begin(), counts.end()) - counts.begin();
    if (member->rank < static_cast<int64_t>(rank_count) &&
        counts[member->rank] == 0) {
      member->holder = member->rank;
    }
    ++counts[member->holder];
  }
}

// Returns why the group's data cannot be rebuilt; empty if it can.
std::string WhyNot(const PlannedGroup& group, const RecoveryPlan& plan) {
  const auto layout =
      StripeLayout::Make(group.data_bytes, plan.parity_count, plan.block_bytes);
  if (!layout.ok()) return std::string(layout.status().message());
  std::vector<int64_t> lost;
  for (const PlannedMember& member : group.members) {
    if (member.is_lost()) lost.push_back(member.rank);
  }
  for (size_t i = 0; i < group.members.size(); ++i) {
    const PlannedMember& member = group.members[i];
    const int64_t block_count = layout->data_block_count(i);
    for (int64_t block = 0; block < block_count; ++block) {
      if (!member.is_lost() && !member.bad_data.contains(block)) continue;
      const StripeLayout::Stripe stripe = layout->OfData(i, block);
      int64_t bad_count = 0;
      for (const StripeShard& shard : stripe.shards) {
        bad_count += !IsGood(group, shard);
      }
      if (bad_count <= plan.parity_count) continue;
      std::string text = "group " + std::to_string(group.group);
      text += lost.empty() ? "" : ": " + RankList(lost) + " of the save lost";
      return text + ": " + std::to_string(bad_count) +
             " shards of a stripe are lost or damaged, and " +
             std::to_string(plan.parity_count) + " can be made again (block " +
             std::to_string(block) + " of rank " + std::to_string(member.rank) +
             ")";
    }
  }
  return "";
}

}  // namespace

std::string EncodeRankReport(const RankReport& report) {
  std::string bytes;
  PutVarint(bytes, report.members.size());
  for (const MemberReport& member : report.members) {
    PutVarint(bytes, member.rank);
    bytes.push_back(member.is_protected ? 1 : 0);
    PutNumbers(bytes, member.bad_data);
    PutNumbers(bytes, member.bad_parity);
  }
  PutVarint(bytes, report.shapes.size());
  for (const GroupShape& shape : report.shapes) {
    PutVarint(bytes, shape.group);
    PutVarint(bytes, shape.data_bytes.size());
    for (const uint64_t count : shape.data_bytes) PutVarint(bytes, count);
  }
  PutVarint(bytes, report.groups.size());
  for (const auto& group : report.groups) PutNumbers(bytes, group);
  PutVarint(bytes, report.parity_count);
  PutVarint(bytes, report.block_bytes);
  return bytes;
}

Result<RankReport> DecodeRankReport(std::string_view bytes) {
  Cursor cursor(bytes);
  RankReport report;
  if (!ReadReport(cursor, report) || !IsSound(report)) {
    return DataLossError("the report of what is left of a step is malformed");
  }
  return report;
}

std::vector<int64_t> RecoveryPlan::lost_ranks() const {
  std::vector<int64_t> ranks;
  for (const PlannedGroup& group : groups) {
    for (const PlannedMember& member : group.members) {
      if (member.is_lost()) ranks.push_back(member.rank);
    }
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

uint64_t RecoveryPlan::bad_block_count() const {
  uint64_t count = 0;
  for (const PlannedGroup& group : groups) {
    for (const PlannedMember& member : group.members) {
      count += member.bad_data.size() + member.bad_parity.size();
    }
  }
  return count;
}

std::vector<int64_t> RecoveryPlan::holders() const {
  std::vector<int64_t> holders;
  for (const PlannedGroup& group : groups) {
    for (const PlannedMember& member : group.members) {
      if (static_cast<size_t>(member.rank) >= holders.size()) {
        holders.resize(member.rank + 1);
      }
      holders[member.rank] = member.holder;
    }
  }
  return holders;
}

bool IsGood(const PlannedGroup& group, const StripeShard& shard) {
  if (shard.byte_count == 0) return true;
  const PlannedMember& member = group.members[shard.member];
  if (member.is_lost()) return false;
  return !(shard.is_parity ? member.bad_parity : member.bad_data)
              .contains(shard.block);
}

RecoveryPlan PlanRecovery(const std::vector<RankReport>& reports) {
  RecoveryPlan plan;
  const RankReport* first = nullptr;
  std::map<int64_t, const GroupShape*> shapes;
  for (const RankReport& report : reports) {
    if (!report.groups.empty() && first == nullptr) first = &report;
    if (first == nullptr || report.groups != first->groups) continue;
    for (const GroupShape& shape : report.shapes) {
      shapes.emplace(shape.group, &shape);
    }
  }
  if (first == nullptr) {
    plan.why_not = "no rank has a readable record of it";
    return plan;
  }
  plan.parity_count = first->parity_count;
  plan.block_bytes = first->block_bytes;
  for (size_t i = 0; i < first->groups.size(); ++i) {
    PlannedGroup& group = plan.groups.emplace_back();
    group.group = static_cast<int64_t>(i);
    for (const int64_t rank : first->groups[i]) {
      group.members.emplace_back().rank = rank;
    }
    const auto shape = shapes.find(group.group);
    if (shape != shapes.end()) {
      group.data_bytes = shape->second->data_bytes;
    } else if (plan.why_not.empty()) {
      plan.why_not = "group " + std::to_string(i) + ": " +
                     RankList(first->groups[i]) + " of the save are all lost";
    }
  }
  FindSources(reports, plan);
  ChooseHolders(reports.size(), plan);
  for (const PlannedGroup& group : plan.groups) {
    if (!plan.why_not.empty()) break;
    plan.why_not = WhyNot(group, plan);
  }
  return plan;
}

}  // namespace holdfast
