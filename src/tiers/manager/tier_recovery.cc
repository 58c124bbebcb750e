// Rebuilds a step of the local tier, by all ranks together.
#include <algorithm>
#include <map>

#include "ground/base/executor.h"
#include "ground/base/status_macros.h"
#include "ground/base/string_coding.h"
#include "stores/storage/file_store.h"
#include "tiers/manager/block_files.h"
#include "tiers/manager/block_maker.h"
#include "tiers/manager/recovery_plan.h"
#include "tiers/manager/step_files.h"
#include "tiers/manager/tier_run.h"

namespace holdfast {
namespace {

// The number of inspections, each with a repair. A block that goes bad between
// an inspection and its repair is found by the next inspection.
constexpr int kAttemptCount = 3;

// A thread that waits for peers' blocks does nothing else. With six threads,
// rebuilding a host took a fifth less time than with two threads on two
// processors.
constexpr int kRebuildThreadsMin = 6;

// Returns the number of threads for a restore. Nothing else runs during a
// restore, so it uses all processors.
int RestoreThreadCount(const TieredManagerOptions& options) {
  return std::max(
      {options.peer_threads, Executor().thread_count(), kRebuildThreadsMin});
}

class Recovery {
 public:
  Recovery(TierRun& run, ProcessGroup& group, const TierStep& step,
           const std::vector<std::vector<TierMember>>& inventory)
      : run_(run), group_(group), step_(step), inventory_(inventory) {}

  Result<RecoveredStep> Recover() {
    RecoveredStep recovered;
    for (int attempt = 0;; ++attempt) {
      HF_ASSIGN_OR_RETURN(const RecoveryPlan plan, Plan());
      recovered.why_not = plan.why_not;
      if (!plan.why_not.empty()) return recovered;
      AddTo(recovered, plan);
      const Status repaired = Repair(plan);
      if (repaired.ok()) {
        holders_ = plan.holders();
        break;
      }
      // Blocks that were good in the inspection are now bad. Another inspection
      // finds them, and the next plan avoids them.
      if (repaired.code() != StatusCode::kDataLoss) return repaired;
      recovered.why_not = std::string(repaired.message());
      if (attempt + 1 == kAttemptCount) return recovered;
    }
    HF_RETURN_IF_ERROR(RemoveSurplus());
    HF_RETURN_IF_ERROR(Show(recovered));
    return recovered;
  }

 private:
  Meeting At(std::string_view phase) const { return {phase, run_.options.run}; }

  static void AddTo(RecoveredStep& recovered, const RecoveryPlan& plan) {
    for (const int64_t rank : plan.lost_ranks()) {
      recovered.rebuilt_ranks.push_back(rank);
    }
    recovered.healed_block_count += plan.bad_block_count();
  }

  Result<RecoveryPlan> Plan() {
    HF_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                        group_.AllGather(At("look"), EncodeRankReport(Look())));
    std::vector<RankReport> reports;
    for (const std::string& bytes : all) {
      HF_ASSIGN_OR_RETURN(reports.emplace_back(), DecodeRankReport(bytes));
    }
    return PlanRecovery(reports);
  }

  // Reads and checks every block that this rank has. An unreadable block counts
  // as lost, whatever the reason.
  RankReport Look() {
    RankReport report;
    const Result<std::vector<TierMember>> members = run_.steps->List();
    if (!members.ok()) return report;
    for (const TierMember& member : *members) {
      if (member.step == step_) LookAt(member, report);
    }
    return report;
  }

  void LookAt(const TierMember& member, RankReport& report) {
    run_.served->Forget(member);
    auto group = run_.served->GroupOf(member);
    if (!group.ok()) {
      if (!HealRecord(member)) return;
      group = run_.served->GroupOf(member);
      if (!group.ok()) return;
    }
    MemberReport mine;
    mine.rank = member.rank;
    mine.is_protected = run_.steps->IsProtected(member);
    const int64_t index = (*group)->IndexOf(member.rank);
    const auto data = run_.served->DataOf(member);
    const auto parity = run_.served->ParityOf(member);
    if (!data.ok() || !parity.ok()) return;
    const auto bad_data = FindBadBlocks(
        **data, (*group)->members[index].block_sums, thread_count_);
    if (!bad_data.ok()) return;
    mine.bad_data = *bad_data;
    mine.bad_parity = BadParityOf(member, **parity);
    report.members.push_back(std::move(mine));
    report.shapes.push_back({(*group)->group, (*group)->data_bytes()});
    report.groups = (*group)->groups;
    report.parity_count = (*group)->parity_count;
    report.block_bytes = (*group)->block_bytes;
  }

  std::vector<int64_t> BadParityOf(const TierMember& member,
                                   BlockFiles& parity) {
    const Result<std::vector<uint32_t>> sums = SumsOf(member);
    if (sums.ok() &&
        sums->size() == static_cast<size_t>(parity.block_count())) {
      const auto bad = FindBadBlocks(parity, *sums, thread_count_);
      if (bad.ok()) return *bad;
    }
    return AllBlocks(parity.block_count());
  }

  Result<std::vector<uint32_t>> SumsOf(const TierMember& member) {
    HF_ASSIGN_OR_RETURN(const Bytes bytes,
                        run_.served->ReadFile(member, kTierSumsFile));
    return DecodeSums(bytes.view());
  }

  // Copies the group's record from another of its members.
  bool HealRecord(const TierMember& member) {
    for (size_t rank = 0; rank < inventory_.size(); ++rank) {
      for (const TierMember& other : inventory_[rank]) {
        if (other.step != step_ || other.rank == member.rank) continue;
        const Result<Bytes> bytes =
            run_.peers->ReadFile(rank, other, kTierGroupFile);
        if (!bytes.ok()) continue;
        const Result<GroupRecord> record = DecodeGroupRecord(bytes->view());
        if (!record.ok() || record->step != step_ ||
            record->IndexOf(member.rank) ==
                static_cast<int64_t>(record->ranks().size())) {
          continue;
        }
        FileStore store(run_.steps->PathOf(member));
        return store.Write(kTierGroupFile, bytes->view()).ok();
      }
    }
    return false;
  }

  // --- Repairs: all data first, then parity, which is made from data ---

  struct Task {
    const PlannedGroup* group;
    int64_t index;  // the member's
    const PlannedMember& member() const { return group->members[index]; }
  };

  Status Repair(const RecoveryPlan& plan) {
    std::vector<Task> tasks;
    bool is_needed = false;
    for (const PlannedGroup& group : plan.groups) {
      for (size_t i = 0; i < group.members.size(); ++i) {
        const PlannedMember& member = group.members[i];
        is_needed = is_needed || member.needs_work();
        if (member.needs_work() && member.holder == run_.rank()) {
          tasks.push_back({&group, static_cast<int64_t>(i)});
        }
      }
    }
    if (!is_needed) return Status();
    const auto run_all = [&](Status (Recovery::*work)(const Task&)) {
      for (const Task& task : tasks) {
        HF_RETURN_IF_ERROR((this->*work)(task));
      }
      return Status();
    };
    HF_RETURN_IF_ERROR(
        group_.Agree(At("rebuild data"), run_all(&Recovery::RepairData)));
    if (plan.parity_count > 0) {
      HF_RETURN_IF_ERROR(
          group_.Agree(At("rebuild parity"), run_all(&Recovery::RepairParity)));
    }
    return group_.Agree(At("rebuilt"), run_all(&Recovery::MarkRepaired));
  }

  // Reads the record of the task's group from any member that has it.
  Result<std::shared_ptr<const GroupRecord>> RecordFor(const Task& task) {
    Status failure = DataLossError("no member of the group is left");
    for (const PlannedMember& member : task.group->members) {
      if (member.is_lost()) continue;
      const Result<Bytes> bytes = run_.peers->ReadFile(
          member.source, {step_, member.rank}, kTierGroupFile);
      failure = bytes.status();
      if (!bytes.ok()) continue;
      HF_ASSIGN_OR_RETURN(GroupRecord record, DecodeGroupRecord(bytes->view()));
      return std::make_shared<const GroupRecord>(std::move(record));
    }
    return failure;
  }

  Status RepairData(const Task& task) {
    const PlannedMember& member = task.member();
    if (!member.is_lost() && member.bad_data.empty()) return Status();
    const TierMember me{step_, member.rank};
    HF_ASSIGN_OR_RETURN(const auto record, RecordFor(task));
    HF_ASSIGN_OR_RETURN(
        const std::unique_ptr<BlockMaker> maker,
        BlockMaker::Make(record, *task.group, *run_.peers, no_limit_));
    run_.served->Forget(me);
    std::string directory = run_.steps->PathOf(me);
    std::vector<int64_t> blocks(member.bad_data.begin(), member.bad_data.end());
    if (member.is_lost()) {
      HF_RETURN_IF_ERROR(run_.steps->Remove(me));
      HF_RETURN_IF_ERROR(run_.steps->Begin(me));
      directory = run_.steps->TemporaryPathOf(me);
      blocks = AllBlocks(maker->layout().data_block_count(task.index));
    }
    BlockFiles files(directory + "/" + std::string(kTierFilesDirectory),
                     record->members[task.index].files, record->block_bytes);
    HF_RETURN_IF_ERROR(WriteBlocks(blocks, files, thread_count_,
                                   [&](int64_t block, std::span<char> target) {
                                     return maker->MakeData(task.index, block,
                                                            target);
                                   })
                           .status());
    HF_RETURN_IF_ERROR(files.Sync());
    if (!member.is_lost()) return Status();
    FileStore store(directory);
    HF_RETURN_IF_ERROR(store.Write(kTierGroupFile, EncodeGroupRecord(*record)));
    HF_RETURN_IF_ERROR(store.SyncNames());
    return run_.steps->Publish(me);
  }

  Status RepairParity(const Task& task) {
    const PlannedMember& member = task.member();
    const TierMember me{step_, member.rank};
    HF_ASSIGN_OR_RETURN(const auto record, run_.served->GroupOf(me));
    HF_ASSIGN_OR_RETURN(const std::shared_ptr<BlockFiles> files,
                        run_.served->ParityOf(me));
    std::vector<int64_t> blocks(member.bad_parity.begin(),
                                member.bad_parity.end());
    std::vector<uint32_t> sums(files->block_count());
    if (member.is_lost()) {
      blocks = AllBlocks(files->block_count());
    } else if (blocks.size() < sums.size()) {
      // Blocks that stay keep their checksums.
      HF_ASSIGN_OR_RETURN(sums, SumsOf(me));
    } else if (blocks.empty()) {
      return Status();
    }
    HF_ASSIGN_OR_RETURN(
        const std::unique_ptr<BlockMaker> maker,
        BlockMaker::Make(record, *task.group, *run_.peers, no_limit_));
    HF_ASSIGN_OR_RETURN(const std::vector<uint32_t> made,
                        WriteBlocks(blocks, *files, thread_count_,
                                    [&](int64_t block, std::span<char> target) {
                                      return maker->MakeParity(task.index,
                                                               block, target);
                                    }));
    for (size_t i = 0; i < blocks.size(); ++i) sums[blocks[i]] = made[i];
    HF_RETURN_IF_ERROR(files->Sync());
    FileStore store(run_.steps->PathOf(me));
    return store.Write(kTierSumsFile, EncodeSums(sums));
  }

  Status MarkRepaired(const Task& task) {
    return run_.steps->MarkProtected({step_, task.member().rank});
  }

  // Removes copies of members that another rank holds, now that all members are
  // intact. A host may have come back with its member after the member was
  // rebuilt elsewhere.
  Status RemoveSurplus() {
    const auto members = run_.steps->List();
    Status removed = members.status();
    for (size_t i = 0; removed.ok() && i < members->size(); ++i) {
      const TierMember& member = (*members)[i];
      if (member.step != step_ || IsHeldHere(member)) continue;
      run_.served->Forget(member);
      removed = run_.steps->Remove(member);
    }
    return group_.Agree(At("surplus"), removed);
  }

  bool IsHeldHere(const TierMember& member) const {
    return static_cast<size_t>(member.rank) < holders_.size() &&
           holders_[member.rank] == run_.rank();
  }

  // --- The checkpoint, from all members' files ---

  Status Show(RecoveredStep& recovered) {
    std::string mine;
    Status found;
    for (size_t rank = 0; rank < holders_.size(); ++rank) {
      if (holders_[rank] != run_.rank()) continue;
      const TierMember member{step_, static_cast<int64_t>(rank)};
      const auto record = run_.served->GroupOf(member);
      if (!record.ok()) {
        found = record.status();
        break;
      }
      recovered.item = (*record)->item;
      PutVarint(mine, rank);
      PutString(mine, (*record)->item);
      const int64_t index = (*record)->IndexOf(member.rank);
      PutString(mine, EncodeFileList((*record)->members[index].files));
    }
    HF_RETURN_IF_ERROR(group_.Agree(At("records"), found));
    HF_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                        group_.AllGather(At("files"), std::move(mine)));
    std::vector<std::vector<TierFile>> files(holders_.size());
    for (const std::string& bytes : all) {
      HF_RETURN_IF_ERROR(TakeFiles(bytes, files, recovered.item));
    }
    recovered.files = std::make_shared<StepFiles>(step_, std::move(files),
                                                  holders_, *run_.peers);
    return group_.Agree(
        At("finish"),
        StepFiles::Finish(recovered.files, recovered.item, run_.options.save));
  }

  static Status TakeFiles(std::string_view bytes,
                          std::vector<std::vector<TierFile>>& files,
                          std::string& item) {
    Cursor cursor(bytes);
    while (cursor.remaining() > 0) {
      uint64_t rank = 0;
      std::string record;
      if (!ReadVarint64(cursor, rank) || rank >= files.size() ||
          !ReadString(cursor, item) || !ReadString(cursor, record)) {
        return DataLossError("the list of a step's files is malformed");
      }
      HF_ASSIGN_OR_RETURN(files[rank], DecodeFileList(record));
    }
    return Status();
  }

  TierRun& run_;
  ProcessGroup& group_;
  const TierStep step_;
  const std::vector<std::vector<TierMember>>& inventory_;
  const int thread_count_ = RestoreThreadCount(run_.options);
  // A restore has no rate limit, as there is no training that it could disturb.
  RateLimit no_limit_{0, run_.peers->cancel()};
  std::vector<int64_t> holders_;
};

}  // namespace

Result<RecoveredStep> RecoverStep(
    TierRun& run, ProcessGroup& group, const TierStep& step,
    const std::vector<std::vector<TierMember>>& inventory) {
  return Recovery(run, group, step, inventory).Recover();
}

}  // namespace holdfast
