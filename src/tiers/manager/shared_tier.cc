// The shared tier: steps are copied to it from the local tier, as plain
// checkpoints.
#include <algorithm>

#include "engine/format/checkpoint_metadata.h"
#include "engine/format/directory_names.h"
#include "engine/format/own_documents.h"
#include "engine/save/save_options.h"
#include "ground/base/status_macros.h"
#include "ground/base/string_coding.h"
#include "ground/run/run.h"
#include "holdfast/pending_save.h"
#include "holdfast/steps/steps.h"
#include "stores/place/place.h"
#include "tiers/manager/block_maker.h"
#include "tiers/manager/tier_run.h"

namespace holdfast {
namespace {

nlohmann::ordered_json TierJsonOf(const TierRun& run, const TierStep& step) {
  return {{kTierKey,
           {{"run", run.options.run},
            {"epoch", step.epoch},
            {"save_id", step.save_id}}}};
}

// Reads a step's metadata about the manager that saved it. Fields of `step`
// that are absent there keep their values.
void ReadTierStep(const std::string& path, const std::string& run,
                  TierStep& step) {
  const Result<Bytes> text =
      Place(path).OpenStore()->Read(kCheckpointMetadataFile);
  if (!text.ok()) return;
  const auto metadata = ParseCheckpointMetadata(text->view());
  if (!metadata.ok() || !metadata->custom_metadata.contains(kTierKey)) return;
  const auto& tier = metadata->custom_metadata[kTierKey];
  if (!tier.is_object() || tier.value("run", "") != run) return;
  const auto epoch = tier.find("epoch");
  if (epoch == tier.end() || !epoch->is_number_integer()) return;
  step.epoch = *epoch;
  step.save_id = tier.value("save_id", "");
}

// Writes one member's files to the step.
class FileCopier {
 public:
  FileCopier(TierRun& run, Store& store, const MemberRecord& record)
      : run_(run), store_(store), record_(record) {}

  // Appends the next bytes.
  Status Append(std::string_view bytes) {
    while (!bytes.empty()) {
      HF_RETURN_IF_ERROR(OpenNext());
      const TierFile& file = record_.files[index_];
      const std::string_view part = bytes.substr(
          0, std::min<uint64_t>(bytes.size(), file.byte_count - offset_));
      HF_RETURN_IF_ERROR(run_.drain_limit->Take(part.size()));
      HF_RETURN_IF_ERROR(writer_->WriteAt(offset_, {{part}}));
      offset_ += part.size();
      bytes.remove_prefix(part.size());
      if (offset_ == file.byte_count) HF_RETURN_IF_ERROR(CloseFile());
    }
    return Status();
  }

  // Completes the files. Call after all bytes have been appended.
  Status Finish() {
    HF_RETURN_IF_ERROR(OpenNext());
    return store_.SyncNames();
  }

 private:
  // Opens the next file that has bytes, and writes files without bytes before
  // it.
  Status OpenNext() {
    while (writer_ == nullptr && index_ < record_.files.size()) {
      const TierFile& file = record_.files[index_];
      if (file.byte_count > 0) {
        HF_ASSIGN_OR_RETURN(writer_, store_.Create(file.path));
        return Status();
      }
      HF_RETURN_IF_ERROR(store_.Write(file.path, std::string_view()));
      ++index_;
    }
    return Status();
  }

  Status CloseFile() {
    HF_RETURN_IF_ERROR(writer_->Finish(run_.options.save.sync));
    writer_.reset();
    offset_ = 0;
    ++index_;
    return Status();
  }

  TierRun& run_;
  Store& store_;
  const MemberRecord& record_;
  size_t index_ = 0;     // the current file's
  uint64_t offset_ = 0;  // in the current file
  std::unique_ptr<ObjectWriter> writer_;
};

// Copies a member's files to `store`. Compares every block with its checksum,
// and rebuilds it if it differs.
Status CopyMember(TierRun& run, const TierMember& member, Store& store) {
  HF_ASSIGN_OR_RETURN(const std::shared_ptr<const GroupRecord> group,
                      run.served->GroupOf(member));
  HF_ASSIGN_OR_RETURN(const std::shared_ptr<BlockFiles> files,
                      run.served->DataOf(member));
  PlannedGroup whole = WholeGroup(*group);
  const int64_t index = group->IndexOf(member.rank);
  // This rank has the member, no matter which rank wrote it.
  whole.members[index].holder = run.rank();
  HF_ASSIGN_OR_RETURN(
      const std::unique_ptr<BlockMaker> maker,
      BlockMaker::Make(group, std::move(whole), *run.peers, *run.parity_limit));
  FileCopier copier(run, store, group->members[index]);
  Buffer bytes(group->block_bytes);
  for (int64_t block = 0; block < files->block_count(); ++block) {
    const std::span<char> target(bytes.data(), files->BytesOf(block));
    HF_RETURN_IF_ERROR(maker->GetData(index, block, target));
    HF_RETURN_IF_ERROR(copier.Append({target.data(), target.size()}));
  }
  HF_RETURN_IF_ERROR(copier.Finish());
  const std::lock_guard lock(run.mutex);
  run.stats.drained_bytes += files->byte_count();
  return Status();
}

struct CopiedMembers {
  std::string item;
  uint64_t rank_count = 0;  // in the save; 0: this rank has no member
};

Result<CopiedMembers> CopyMembers(TierRun& run, const TierStep& step,
                                  const std::string& directory) {
  const std::shared_ptr<Store> store = Place(directory).OpenStore();
  HF_ASSIGN_OR_RETURN(const std::vector<TierMember> members, run.steps->List());
  CopiedMembers copied;
  for (const TierMember& member : members) {
    if (member.step != step) continue;
    HF_RETURN_IF_ERROR(CopyMember(run, member, *store));
    HF_ASSIGN_OR_RETURN(const auto group, run.served->GroupOf(member));
    copied = {group->item, group->hosts.size()};
  }
  return copied;
}

// Gathers what the ranks have copied. Rank 0 may have no member, if a step of
// an earlier run is copied.
Result<CopiedMembers> GatherCopied(ProcessGroup& group, const std::string& root,
                                   const CopiedMembers& mine) {
  std::string text;
  PutVarint(text, mine.rank_count);
  PutString(text, mine.item);
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                      group.AllGather({"copied", root}, text));
  for (const std::string& bytes : all) {
    CopiedMembers copied;
    Cursor cursor(bytes);
    if (!ReadVarint64(cursor, copied.rank_count) ||
        !ReadString(cursor, copied.item)) {
      return DataLossError("what a rank has copied of a step cannot be read");
    }
    if (copied.rank_count > 0) return copied;
  }
  return FailedPreconditionError("no rank has a part of the step");
}

Status FinishCopiedItem(const TierRun& run, const TierStep& step,
                        const CopiedMembers& copied,
                        const std::string& directory) {
  return FinishItem(directory + "/" + copied.item,
                    FinishOptionsOf(run.options.save, step.save_id,
                                    static_cast<int64_t>(copied.rank_count)));
}

// Returns whether the step is already in the shared tier. A step of an earlier
// timeline will be replaced; a newer step, or one of another program, is an
// error.
Result<bool> IsThere(const TierRun& run, const TierStep& step) {
  HF_ASSIGN_OR_RETURN(const std::vector<SharedStep> steps,
                      ListSharedSteps(run.options));
  for (const SharedStep& shared : steps) {
    if (shared.step.step != step.step) continue;
    if (shared.step == step) return true;
    if (shared.step.epoch == 0 || shared.step > step) {
      return AlreadyExistsError(run.options.shared.directory + "/" +
                                shared.name +
                                " exists, and is not an earlier save of this "
                                "run");
    }
  }
  return false;
}

Status CopyStep(TierRun& run, ProcessGroup& group, const TierStep& step) {
  const std::string& root = run.options.shared.directory;
  PendingSaveOptions begin;
  begin.group = &group;
  // IsThere has ensured that only a step of an earlier timeline can be
  // replaced.
  begin.overwrite = true;
  begin.sync = run.options.save.sync;
  begin.commit_mode = run.options.save.commit_mode;
  HF_ASSIGN_OR_RETURN(
      const std::unique_ptr<PendingSave> pending,
      PendingSave::Begin(root + "/" + std::to_string(step.step), begin));
  const Result<CopiedMembers> mine =
      CopyMembers(run, step, pending->directory());
  HF_RETURN_IF_ERROR(group.Agree({"copy", root}, mine.status()));
  HF_ASSIGN_OR_RETURN(const CopiedMembers copied,
                      GatherCopied(group, root, *mine));
  Status finished;
  if (group.rank() == 0) {
    finished = FinishCopiedItem(run, step, copied, pending->directory());
  }
  HF_RETURN_IF_ERROR(group.Agree({"finish", root}, finished));
  HF_RETURN_IF_ERROR(pending->AdoptItem(copied.item));
  RootRecord record;
  record.item_handlers_json =
      nlohmann::ordered_json{{copied.item, kPyTreeHandlerTypestr}}.dump();
  record.documents = TierJsonOf(run, step).dump();
  HF_RETURN_IF_ERROR(pending->Commit(record));
  for (const std::string& note : pending->notes()) run.Warn(note);
  return Status();
}

}  // namespace

Result<std::vector<SharedStep>> ListSharedSteps(
    const TieredManagerOptions& options) {
  std::vector<SharedStep> steps;
  const std::string& root = options.shared.directory;
  if (root.empty()) return steps;
  HF_ASSIGN_OR_RETURN(const std::vector<ScannedStep> scanned,
                      ScanSteps(root, {.read_metadata = false}));
  for (const ScannedStep& found : scanned) {
    if (!found.committed) continue;
    SharedStep& step = steps.emplace_back();
    step.name = found.name;
    step.step.step = found.step;
    ReadTierStep(root + "/" + found.name, options.run, step.step);
  }
  std::sort(steps.begin(), steps.end(),
            [](const auto& a, const auto& b) { return a.step < b.step; });
  return steps;
}

Status CopyToSharedTier(TierRun& run, ProcessGroup& group,
                        const TierStep& step) {
  Stopwatch watch;
  const std::string& root = run.options.shared.directory;
  Result<bool> is_there = false;
  if (group.rank() == 0) is_there = IsThere(run, step);
  HF_RETURN_IF_ERROR(group.Agree({"drain", root}, is_there.status()));
  HF_ASSIGN_OR_RETURN(
      const std::string answer,
      group.Broadcast({"drain", root}, 0, *is_there ? "there" : ""));
  if (!answer.empty()) return Status();
  HF_RETURN_IF_ERROR(CopyStep(run, group, step));
  const std::lock_guard lock(run.mutex);
  run.stats.drain_seconds = watch.Lap();
  return Status();
}

Status RetireSharedSteps(const TierRun& run) {
  const std::optional<int64_t> count = run.options.shared.max_to_keep;
  if (!count) return Status();
  HF_ASSIGN_OR_RETURN(std::vector<SharedStep> steps,
                      ListSharedSteps(run.options));
  // Steps that other programs saved are not removed.
  std::erase_if(steps, [](const SharedStep& s) { return s.step.epoch == 0; });
  const size_t kept = static_cast<size_t>(std::max<int64_t>(*count, 1));
  if (steps.size() <= kept) return Status();
  steps.resize(steps.size() - kept);
  std::vector<std::string> names;
  for (const SharedStep& step : steps) names.push_back(step.name);
  HF_ASSIGN_OR_RETURN(const DisposedSteps disposed,
                      DisposeOfSteps(run.options.shared.directory, names));
  for (const std::string& path : disposed.to_remove) {
    HF_RETURN_IF_ERROR(RemoveTrashed(path));
  }
  return Status();
}

}  // namespace holdfast
