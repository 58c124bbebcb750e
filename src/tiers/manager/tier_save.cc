// Saves a step to the local tier: this rank's part, then its group's parity.
#include <algorithm>

#include "engine/save/save_item.h"
#include "engine/save/save_options.h"
#include "engine/save/save_plan.h"
#include "ground/base/status_macros.h"
#include "ground/run/run.h"
#include "ground/tensor/box.h"
#include "ground/tensor/copy.h"
#include "holdfast/checkpoint.h"
#include "holdfast/pending_save.h"
#include "stores/place/make_directories.h"
#include "stores/place/place.h"
#include "stores/storage/directory_ops.h"
#include "stores/storage/file_store.h"
#include "tiers/manager/block_files.h"
#include "tiers/manager/block_maker.h"
#include "tiers/manager/tier_run.h"

namespace holdfast {
namespace {

// Reads an array that every rank has, for a save by all ranks.
class MemoryReader final : public ArrayReader {
 public:
  explicit MemoryReader(Array array) : array_(std::move(array)) {}
  Status Read(const Shape& origin, const ArrayView& target) const override {
    CopyStrided(Subview(array_.view(), Box{origin, target.shape}), target);
    return Status();
  }

 private:
  const Array array_;
};

// Reads a live array that every rank has, for a save by all ranks.
class DividedReader final : public ArrayReader {
 public:
  // REQUIRES: the leaf has a reader.
  explicit DividedReader(Tree leaf) : leaf_(std::move(leaf)) {}
  Status Read(const Shape& origin, const ArrayView& target) const override {
    return leaf_.reader()->Read(origin, target);
  }

 private:
  const Tree leaf_;
};

std::shared_ptr<const ArrayReader> ReaderOf(const Tree& leaf) {
  if (leaf.reader() != nullptr) return std::make_shared<DividedReader>(leaf);
  return std::make_shared<MemoryReader>(leaf.array());
}

// Returns the tree in which arrays that every rank has in full are deferred
// arrays, so that each rank writes a share of them.
Tree Spread(const Tree& tree) {
  Tree spread = tree;
  if (!tree.is_leaf()) {
    for (size_t i = 0; i < tree.size(); ++i) {
      spread.mutable_child(i) = Spread(tree.children()[i]);
    }
    return spread;
  }
  if (tree.leaf_kind() != LeafKind::kArray || tree.is_sharded()) return spread;
  if (tree.reader() != nullptr && !tree.reader()->is_live()) return spread;
  return Tree::DeferredArray(
      tree.array_dtype(), tree.array_shape(), ReaderOf(tree), tree.array_kind(),
      tree.array_kind() == ArrayKind::kNumpy
          ? nullptr
          : std::make_shared<const ArrayTraits>(tree.array_traits()));
}

Status WriteItemOf(TierRun& run, const TierMember& me, const Place& item,
                   const Tree& tree) {
  const Stopwatch begun;
  const bool is_alone = run.peers->size() == 1;
  const Tree spread = is_alone ? tree : Spread(tree);
  const ProcessPart part{me.rank, me.rank == 0, "", me.step.save_id};
  const PlanPart mine{true, part.is_primary, me.rank, run.peers->size()};
  HF_ASSIGN_OR_RETURN(
      const SavePlan plan,
      MakeSavePlan(spread, ItemOptions(item, run.options.save), mine));
  return SavePlannedItem(item, plan, &part, begun).status();
}

// Writes this rank's part of the checkpoint, and computes its blocks'
// checksums.
Result<MemberRecord> WriteMember(TierRun& run, const TierMember& me,
                                 const Tree& tree,
                                 const TieredSaveOptions& options) {
  HF_RETURN_IF_ERROR(run.steps->Begin(me));
  const std::string directory =
      run.steps->TemporaryPathOf(me) + "/" + std::string(kTierFilesDirectory);
  const Place item = Place(directory) / run.options.item;
  HF_RETURN_IF_ERROR(MakeDirectories(item.path(), std::nullopt));
  HF_RETURN_IF_ERROR(WriteItemOf(run, me, item, tree));
  FileStore store(directory);
  for (const auto& [path, content] : options.files) {
    HF_RETURN_IF_ERROR(store.Write(path, content));
  }
  HF_RETURN_IF_ERROR(store.SyncNames());
  HF_RETURN_IF_ERROR(local::SyncDirectory(directory));
  MemberRecord record;
  HF_ASSIGN_OR_RETURN(record.files, ListFiles(directory));
  BlockFiles files(directory, record.files, run.options.parity.block_bytes);
  HF_ASSIGN_OR_RETURN(record.block_sums,
                      SumBlocks(files, run.options.peer_threads));
  return record;
}

int64_t GroupIndexOf(const TierRun& run) {
  for (size_t i = 0; i < run.groups.size(); ++i) {
    for (const int64_t rank : run.groups[i]) {
      if (rank == run.rank()) return static_cast<int64_t>(i);
    }
  }
  return 0;
}

// Exchanges the members' records within this rank's group, and returns the
// group's record.
Result<GroupRecord> ExchangeRecords(TierRun& run, ProcessGroup& group,
                                    const TierStep& step,
                                    const MemberRecord& mine) {
  GroupRecord record;
  record.step = step;
  record.item = run.options.item;
  record.block_bytes = run.options.parity.block_bytes;
  record.parity_count = run.parity_count;
  record.groups = run.groups;
  record.group = GroupIndexOf(run);
  for (int64_t rank = 0; rank < run.peers->size(); ++rank) {
    record.hosts.push_back(run.peers->NameOf(rank));
  }
  if (record.ranks().size() == 1) {
    record.members.push_back(mine);
    return record;
  }
  std::vector<int64_t> ranks = record.ranks();
  std::sort(ranks.begin(), ranks.end());
  const std::unique_ptr<ProcessGroup> members =
      group.Subgroup(ranks, "members of " + step.save_id);
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                      members->AllGather({"records", run.options.run},
                                         EncodeMemberRecord(mine)));
  for (const int64_t rank : record.ranks()) {
    const size_t index =
        std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
    HF_ASSIGN_OR_RETURN(record.members.emplace_back(),
                        DecodeMemberRecord(all[index], record.block_bytes));
  }
  return record;
}

Status StoreMember(TierRun& run, const TierMember& me,
                   const GroupRecord& record) {
  FileStore store(run.steps->TemporaryPathOf(me));
  HF_RETURN_IF_ERROR(store.Write(kTierGroupFile, EncodeGroupRecord(record)));
  HF_RETURN_IF_ERROR(store.SyncNames());
  return run.steps->Publish(me);
}

Status StoreParity(TierRun& run, const TierMember& me,
                   std::shared_ptr<const GroupRecord> record) {
  const int64_t index = record->IndexOf(me.rank);
  const std::string directory = run.steps->PathOf(me);
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<BlockMaker> maker,
                      BlockMaker::Make(record, WholeGroup(*record), *run.peers,
                                       *run.parity_limit));
  const auto files = ParityFilesOf(directory, *record, index);
  const std::vector<int64_t> blocks = AllBlocks(files->block_count());
  HF_ASSIGN_OR_RETURN(const std::vector<uint32_t> sums,
                      WriteBlocks(blocks, *files, run.options.peer_threads,
                                  [&](int64_t block, std::span<char> target) {
                                    return maker->MakeParity(index, block,
                                                             target);
                                  }));
  HF_RETURN_IF_ERROR(files->Sync());
  // The checksums are written last. Without them, a recovery trusts no block.
  FileStore store(directory);
  HF_RETURN_IF_ERROR(store.Write(kTierSumsFile, EncodeSums(sums)));
  const std::lock_guard lock(run.mutex);
  run.stats.parity_bytes = files->byte_count();
  return Status();
}

// Stores parity and marks the step as protected. If any rank fails to store its
// parity, no rank marks the step.
Status Protect(TierRun& run, ProcessGroup& group, const TierMember& me,
               std::shared_ptr<const GroupRecord> record) {
  Status stored;
  if (record->parity_count > 0) stored = StoreParity(run, me, record);
  HF_RETURN_IF_ERROR(group.Agree({"protect", run.options.run}, stored));
  // The step is protected even if this rank cannot record that. A rank that has
  // not recorded it also keeps the previous step.
  const Status marked = run.steps->MarkProtected(me);
  if (!marked.ok()) run.Warn(std::string(marked.message()));
  return Status();
}

// Removes a member if possible. If it stays, it is still not a protected step.
void RemoveMember(TierRun& run, const TierMember& member) {
  run.served->Forget(member);
  const Status removed = run.steps->Remove(member);
  if (!removed.ok()) run.Warn(std::string(removed.message()));
}

Status SaveMember(TierRun& run, ProcessGroup& group, const TierMember& me,
                  const Tree& tree, const TieredSaveOptions& options) {
  Stopwatch watch;
  const Result<MemberRecord> mine = WriteMember(run, me, tree, options);
  // No rank renames its part before all ranks have written theirs.
  HF_RETURN_IF_ERROR(group.Agree({"write", run.options.run}, mine.status()));
  const Result<GroupRecord> exchanged =
      ExchangeRecords(run, group, me.step, *mine);
  const Status stored =
      exchanged.ok() ? StoreMember(run, me, *exchanged) : exchanged.status();
  HF_RETURN_IF_ERROR(group.Agree({"store", run.options.run}, stored));
  const double write_seconds = watch.Lap();
  const Status restorable =
      CheckRestorable(run, group, me, *exchanged, options.files);
  // A damaged member is removed, because every restore would inspect it in
  // vain.
  if (IsDamage(restorable)) RemoveMember(run, me);
  HF_RETURN_IF_ERROR(restorable);
  const uint64_t received_before = run.peers->received_bytes();
  HF_RETURN_IF_ERROR(
      Protect(run, group, me, std::make_shared<const GroupRecord>(*exchanged)));
  const std::lock_guard lock(run.mutex);
  run.stats.data_bytes = mine->byte_count();
  run.stats.write_seconds = write_seconds;
  run.stats.protect_seconds = watch.Lap();
  run.stats.received_bytes += run.peers->received_bytes() - received_before;
  return Status();
}

std::vector<KeptStep> KeptStepsOf(TierRun& run,
                                  const std::vector<TierMember>& members,
                                  bool has_bytes) {
  std::vector<KeptStep> kept;
  for (const TierMember& member : members) {
    // List sorts by step, so members of one step are next to each other.
    if (kept.empty() || kept.back().step != member.step) {
      kept.push_back({member.step, true, false, 0});
    }
    KeptStep& step = kept.back();
    // A step counts as protected if all its members on this host are protected.
    step.is_protected = step.is_protected && run.steps->IsProtected(member);
    // The size matters only with a limit, and computing it walks the files.
    if (has_bytes) step.byte_count += run.steps->BytesOf(member);
    const std::lock_guard lock(run.mutex);
    step.is_in_use = run.in_use.contains(member.step);
  }
  return kept;
}

Status RemoveSteps(TierRun& run, const std::vector<TierMember>& members,
                   const std::vector<TierStep>& steps) {
  for (const TierMember& member : members) {
    if (std::find(steps.begin(), steps.end(), member.step) == steps.end()) {
      continue;
    }
    run.served->Forget(member);
    HF_RETURN_IF_ERROR(run.steps->Remove(member));
  }
  return Status();
}

Status Retire(TierRun& run, int64_t max_to_keep, uint64_t bytes_max) {
  HF_ASSIGN_OR_RETURN(const std::vector<TierMember> members, run.steps->List());
  return RemoveSteps(run, members,
                     StepsToRemove(KeptStepsOf(run, members, bytes_max != 0),
                                   max_to_keep, bytes_max));
}

}  // namespace

Status SaveToLocalTier(TierRun& run, ProcessGroup& group, const TierStep& step,
                       const Tree& tree, const TieredSaveOptions& options) {
  const TierMember me{step, run.rank()};
  const Status saved = SaveMember(run, group, me, tree, options);
  if (saved.ok()) return saved;
  // A member that has its final name stays, because other ranks may have
  // protected it already.
  static_cast<void>(run.steps->Abandon(me));
  return saved;
}

Status RetireLocalSteps(TierRun& run) {
  return Retire(run, run.options.local.max_to_keep,
                run.options.local.bytes_max);
}

Status MakeRoom(TierRun& run, uint64_t byte_count) {
  HF_ASSIGN_OR_RETURN(uint64_t free_bytes, run.steps->FreeBytes());
  if (free_bytes >= byte_count) return Status();
  HF_RETURN_IF_ERROR(Retire(run, 1, 0));
  HF_ASSIGN_OR_RETURN(free_bytes, run.steps->FreeBytes());
  if (free_bytes >= byte_count) return Status();
  return ResourceExhaustedError(
      "local tier " + run.steps->path() + ": not enough free space (got " +
      std::to_string(free_bytes) + " bytes, want " +
      std::to_string(byte_count) +
      " beside the last protected step, which stays)");
}

}  // namespace holdfast
