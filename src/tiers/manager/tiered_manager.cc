#include "holdfast/tiers/tiered_manager.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "engine/checkpoint/opened_checkpoint.h"
#include "ground/base/host_name.h"
#include "ground/base/no_throw.h"
#include "ground/base/sha256.h"
#include "ground/base/status_macros.h"
#include "ground/base/string_coding.h"
#include "stores/place/place.h"
#include "tiers/manager/step_files.h"
#include "tiers/manager/tier_run.h"
#include "tiers/parity/placement.h"

namespace holdfast {
namespace {

// How long an exiting rank waits for the others.
constexpr double kFarewellSeconds = 30;

// A copy of a step that a restore may choose.
struct Candidate {
  TierStep step;
  bool is_local = false;
  std::string name;  // in the shared tier

  std::string id() const {
    return is_local ? "local:" + step.save_id : "shared:" + name;
  }
  // Orders candidates newest first, and the local copy of a save before its
  // shared copy.
  bool operator<(const Candidate& other) const {
    if (step != other.step) return step > other.step;
    return is_local && !other.is_local;
  }
};

// The steps that a rank has when a restore begins. It sends them to the other
// ranks.
struct Inventory {
  std::vector<TierMember> members;
  std::vector<SharedStep> shared;  // rank 0's
};

std::string EncodeInventory(const Inventory& inventory) {
  std::string bytes;
  PutVarint(bytes, inventory.members.size());
  for (const TierMember& member : inventory.members) {
    PutString(bytes, DirectoryNameOf(member));
  }
  PutVarint(bytes, inventory.shared.size());
  for (const SharedStep& shared : inventory.shared) {
    PutVarint(bytes, shared.step.epoch);
    PutVarint(bytes, shared.step.step);
    PutString(bytes, shared.step.save_id);
    PutString(bytes, shared.name);
  }
  return bytes;
}

bool ReadInventory(Cursor& cursor, Inventory& inventory) {
  // A count is trusted only if the bytes can hold that many entries.
  uint64_t count = 0;
  if (!ReadVarint64(cursor, count) || count > cursor.remaining()) return false;
  for (uint64_t i = 0; i < count; ++i) {
    std::string name;
    if (!ReadString(cursor, name)) return false;
    const auto member = ParseDirectoryName(name);
    if (!member) return false;
    inventory.members.push_back(*member);
  }
  if (!ReadVarint64(cursor, count) || count > cursor.remaining()) return false;
  for (uint64_t i = 0; i < count; ++i) {
    SharedStep& shared = inventory.shared.emplace_back();
    uint64_t step = 0;
    if (!ReadVarint64(cursor, shared.step.epoch) ||
        !ReadVarint64(cursor, step) ||
        !ReadString(cursor, shared.step.save_id) ||
        !ReadString(cursor, shared.name)) {
      return false;
    }
    shared.step.step = static_cast<int64_t>(step);
  }
  return cursor.remaining() == 0;
}

std::string NoStepText(std::optional<int64_t> step,
                       const std::vector<std::string>& reasons) {
  std::string text = "tiered manager: no step can be restored";
  if (step) text += " (want step " + std::to_string(*step) + ")";
  for (const std::string& reason : reasons) text += "; " + reason;
  if (reasons.empty()) return text;
  return text + "; to start over, give the run another name (run)";
}

Status CheckOptions(const TieredManagerOptions& options) {
  const auto refuse = [](const std::string& text) {
    return InvalidArgumentError("tiered manager: " + text);
  };
  if (options.local.save_every < 1) return refuse("local.save_every < 1");
  if (options.local.max_to_keep < 1) {
    return refuse("local.max_to_keep < 1: the last good step stays");
  }
  if (options.shared.save_every < 0) return refuse("shared.save_every < 0");
  if (options.shared.save_every > 0 && options.shared.directory.empty()) {
    return refuse("shared.save_every is given, and no shared.directory");
  }
  if (options.parity.data_shards < 1 || options.parity.parity_shards < 0 ||
      options.parity.data_shards + options.parity.parity_shards > 255) {
    return refuse(
        "parity: want data_shards >= 1, parity_shards >= 0, and at "
        "most 255 together");
  }
  if (options.parity.block_bytes < 512 ||
      options.parity.block_bytes > uint64_t{32} << 20) {
    return refuse("parity.block_bytes: want 512 bytes to 32 MiB");
  }
  if (!CheckKey(options.item).ok() ||
      options.item.find('/') != std::string::npos) {
    return refuse("item \"" + options.item + "\" is not a plain name");
  }
  if (options.save.also) return refuse("save.also is not supported");
  return Status();
}

class TieredManagerImpl final : public TieredManager {
 public:
  explicit TieredManagerImpl(const TieredManagerOptions& options) {
    run_.options = options;
    run_.options.save.group = nullptr;
    run_.options.save.adopt_existing = false;
  }
  ~TieredManagerImpl() override { static_cast<void>(Close()); }

  Status Start(ProcessGroup* group);

  bool ShouldSave(int64_t step) const override {
    return step % run_.options.local.save_every == 0 || IsShared(step);
  }
  Result<bool> Save(int64_t step, const Tree& tree,
                    const TieredSaveOptions& options) override;
  Status WaitProtected() override;
  Status Wait() override;
  Result<TierRestore> Open(std::optional<int64_t> step,
                           const std::vector<std::string>& skip) override;
  Result<std::string> ReadFile(const std::string& path) override;
  Status Agree(const Status& mine) override {
    return control_->Agree({"agree", run_.options.run}, mine);
  }
  Result<std::vector<TierStepInfo>> Steps() override;
  TierStats stats() const override;
  Status Close() override;

 private:
  bool IsShared(int64_t step) const {
    return run_.options.shared.save_every > 0 &&
           step % run_.options.shared.save_every == 0;
  }
  Status Place();
  Status ChooseEpoch();
  Status CheckOpen() const;

  Status SaveStep(int64_t step, const Tree& tree,
                  const TieredSaveOptions& options);
  void StartDrain(const TierStep& step);
  void DrainAll();
  Status Drain(const TierStep& step);

  Result<TierRestore> OpenInCall(std::optional<int64_t> step,
                                 const std::vector<std::string>& skip);
  Result<std::vector<Candidate>> FindCandidates(
      std::vector<std::vector<TierMember>>& inventory);
  Status OpenLocal(const Candidate& candidate,
                   const std::vector<std::vector<TierMember>>& inventory,
                   TierRestore& restore);
  Status OpenShared(const Candidate& candidate, TierRestore& restore);
  bool IsDueStill(const Candidate& candidate,
                  const std::vector<Candidate>& candidates) const;

  TierRun run_;
  std::unique_ptr<ProcessGroup> control_;  // for the caller's thread
  std::unique_ptr<ProcessGroup> saves_;    // for saver_
  std::unique_ptr<ProcessGroup> drains_;   // for drainer_

  std::thread saver_;
  Status save_status_;  // the last save's, once saver_ is joined

  std::thread drainer_;
  std::mutex drain_mutex_;
  std::condition_variable drain_changed_;
  std::deque<TierStep> to_drain_;  // the first is being copied
  Status drain_status_;            // the first failure since Wait
  bool is_closing_ = false;

  std::shared_ptr<StepFiles> opened_files_;
  std::string opened_path_;  // in the shared tier
  bool is_closed_ = false;
};

Status TieredManagerImpl::Start(ProcessGroup* group) {
  HF_RETURN_IF_ERROR(CheckOptions(run_.options));
  // All ranks are told if one of them cannot begin.
  const auto agree = [&](const Status& mine) {
    return group == nullptr ? mine
                            : group->Agree({"open", run_.options.run}, mine);
  };
  auto steps = LocalSteps::Open(run_.options.local.directory, run_.options.run);
  HF_RETURN_IF_ERROR(agree(steps.status()));
  run_.steps = *std::move(steps);
  run_.served = std::make_unique<ServedSteps>(*run_.steps);
  HF_ASSIGN_OR_RETURN(run_.peers,
                      TierPeers::Start(run_.options, run_.served.get(), group));
  run_.parity_limit = std::make_unique<RateLimit>(
      run_.options.parity.bytes_per_second_max, run_.peers->cancel());
  run_.drain_limit = std::make_unique<RateLimit>(
      run_.options.shared.bytes_per_second_max, run_.peers->cancel());
  control_ = run_.peers->MakeGroup("tier control");
  saves_ = run_.peers->MakeGroup("tier saves");
  drains_ = run_.peers->MakeGroup("tier drains");
  HF_RETURN_IF_ERROR(Place());
  return ChooseEpoch();
}

Status TieredManagerImpl::Place() {
  const ParityOptions& parity = run_.options.parity;
  const std::string mine =
      parity.failure_domain.empty() ? HostName() : parity.failure_domain;
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> domains,
                      control_->AllGather({"domains", run_.options.run}, mine));
  run_.parity_count = domains.size() == 1 ? 0 : parity.parity_shards;
  HF_ASSIGN_OR_RETURN(
      GroupPlan plan,
      PlaceGroups(domains, parity.data_shards + run_.parity_count,
                  run_.parity_count));
  run_.groups = std::move(plan.groups);
  if (run_.parity_count > 0 && plan.domain_losses_covered < 1 &&
      run_.rank() == 0) {
    run_.Warn(
        "tiered manager: the loss of one failure domain takes more than " +
        std::to_string(run_.parity_count) +
        " ranks of a parity group; give each machine its own "
        "failure_domain, or more parity_shards");
  }
  return Status();
}

// Chooses an epoch: one more than the highest that any rank or the shared tier
// has.
Status TieredManagerImpl::ChooseEpoch() {
  uint64_t known = 0;
  Status status;
  const auto members = run_.steps->List();
  if (members.ok()) {
    for (const TierMember& member : *members) {
      known = std::max(known, member.step.epoch);
    }
  } else {
    status = members.status();
  }
  if (status.ok() && run_.rank() == 0) {
    const auto shared = ListSharedSteps(run_.options);
    status = shared.status();
    if (shared.ok()) {
      for (const SharedStep& step : *shared) {
        known = std::max(known, step.step.epoch);
      }
    }
  }
  HF_RETURN_IF_ERROR(control_->Agree({"steps", run_.options.run}, status));
  HF_ASSIGN_OR_RETURN(
      const std::vector<std::string> all,
      control_->AllGather({"epoch", run_.options.run}, std::to_string(known)));
  for (const std::string& text : all) {
    known = std::max<uint64_t>(known, std::stoull(text));
  }
  run_.epoch = known + 1;
  return Status();
}

Status TieredManagerImpl::CheckOpen() const {
  if (!is_closed_) return Status();
  return FailedPreconditionError("tiered manager: it is closed");
}

// --- Saving ---

Result<bool> TieredManagerImpl::Save(int64_t step, const Tree& tree,
                                     const TieredSaveOptions& options) {
  HF_RETURN_IF_ERROR(CheckOpen());
  if (step < 0) {
    return InvalidArgumentError("tiered manager: step " + std::to_string(step) +
                                " is negative");
  }
  if (options.is_shared.value_or(false) &&
      run_.options.shared.directory.empty()) {
    return InvalidArgumentError("tiered manager: there is no shared tier");
  }
  if (!options.force && !ShouldSave(step)) return false;
  // This waits for the previous save and returns its failure.
  HF_RETURN_IF_ERROR(WaitProtected());
  saver_ = std::thread([this, step, tree, options] {
    save_status_ = CatchBadAlloc([&] { return SaveStep(step, tree, options); });
  });
  return true;
}

Status TieredManagerImpl::SaveStep(int64_t step, const Tree& tree,
                                   const TieredSaveOptions& options) {
  TierStep id{run_.epoch, step, ""};
  const Status saved = InGroupCall(saves_.get(), [&]() -> Status {
    HF_RETURN_IF_ERROR(options.failure);
    HF_RETURN_IF_ERROR(CheckOwnFiles(options.files, run_.options.item));
    uint64_t wanted_bytes = 0;
    {
      const std::lock_guard lock(run_.mutex);
      wanted_bytes = run_.stats.data_bytes + run_.stats.parity_bytes;
    }
    HF_RETURN_IF_ERROR(
        saves_->Agree({"room", run_.options.run},
                      MakeRoom(run_, wanted_bytes + wanted_bytes / 20)));
    HF_ASSIGN_OR_RETURN(
        id.save_id,
        saves_->Broadcast({"begin", run_.options.run}, 0, RandomHex32()));
    return SaveToLocalTier(run_, *saves_, id, tree, options);
  });
  HF_RETURN_IF_ERROR(saved);
  if (options.is_shared.value_or(IsShared(step))) StartDrain(id);
  return RetireLocalSteps(run_);
}

Status TieredManagerImpl::WaitProtected() {
  if (saver_.joinable()) saver_.join();
  Status status = std::move(save_status_);
  save_status_ = Status();
  return status;
}

void TieredManagerImpl::StartDrain(const TierStep& step) {
  {
    // The step is marked as in use before it is queued, so that it is not
    // removed before it is copied.
    const std::lock_guard lock(run_.mutex);
    run_.in_use.insert(step);
  }
  const std::lock_guard lock(drain_mutex_);
  to_drain_.push_back(step);
  if (!drainer_.joinable()) {
    drainer_ = std::thread([this] { DrainAll(); });
  }
  drain_changed_.notify_all();
}

void TieredManagerImpl::DrainAll() {
  std::unique_lock lock(drain_mutex_);
  for (;;) {
    drain_changed_.wait(lock,
                        [&] { return !to_drain_.empty() || is_closing_; });
    if (to_drain_.empty()) return;
    const TierStep step = to_drain_.front();
    // A copy takes long, so the lock is released for StartDrain.
    lock.unlock();
    const Status status = CatchBadAlloc([&] { return Drain(step); });
    {
      // run_.mutex and drain_mutex_ are never held together.
      const std::lock_guard run_lock(run_.mutex);
      run_.in_use.erase(step);
    }
    lock.lock();
    to_drain_.pop_front();
    if (drain_status_.ok()) drain_status_ = status;
    drain_changed_.notify_all();
  }
}

Status TieredManagerImpl::Drain(const TierStep& step) {
  HF_RETURN_IF_ERROR(InGroupCall(
      drains_.get(), [&] { return CopyToSharedTier(run_, *drains_, step); }));
  return run_.rank() == 0 ? RetireSharedSteps(run_) : Status();
}

Status TieredManagerImpl::Wait() {
  const Status saved = WaitProtected();
  std::unique_lock lock(drain_mutex_);
  drain_changed_.wait(lock, [&] { return to_drain_.empty(); });
  const Status drained = std::move(drain_status_);
  drain_status_ = Status();
  return saved.ok() ? drained : saved;
}

// --- Restoring ---

Result<std::vector<Candidate>> TieredManagerImpl::FindCandidates(
    std::vector<std::vector<TierMember>>& inventory) {
  Inventory mine;
  Status status;
  auto members = run_.steps->List();
  // A rank whose disk cannot be listed has no members.
  if (members.ok()) mine.members = *std::move(members);
  if (run_.rank() == 0) {
    auto shared = ListSharedSteps(run_.options);
    // The local tier works without the shared tier, so a failure is only a
    // warning.
    if (shared.ok()) mine.shared = *std::move(shared);
    if (!shared.ok()) run_.Warn(std::string(shared.status().message()));
  }
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                      control_->AllGather({"inventory", run_.options.run},
                                          EncodeInventory(mine)));
  std::vector<Candidate> candidates;
  for (const std::string& bytes : all) {
    Inventory theirs;
    Cursor cursor(bytes);
    if (!ReadInventory(cursor, theirs)) {
      return DataLossError("the list of a rank's steps is malformed");
    }
    for (const TierMember& member : theirs.members) {
      candidates.push_back({member.step, true, ""});
    }
    for (const SharedStep& shared : theirs.shared) {
      candidates.push_back({shared.step, false, shared.name});
    }
    inventory.push_back(std::move(theirs.members));
  }
  std::sort(candidates.begin(), candidates.end());
  candidates.erase(std::unique(candidates.begin(), candidates.end(),
                               [](const Candidate& a, const Candidate& b) {
                                 return !(a < b) && !(b < a);
                               }),
                   candidates.end());
  return candidates;
}

Status TieredManagerImpl::OpenLocal(
    const Candidate& candidate,
    const std::vector<std::vector<TierMember>>& inventory,
    TierRestore& restore) {
  const uint64_t received_before = run_.peers->received_bytes();
  HF_ASSIGN_OR_RETURN(RecoveredStep recovered,
                      RecoverStep(run_, *control_, candidate.step, inventory));
  if (!recovered.why_not.empty()) return DataLossError(recovered.why_not);
  auto opened =
      OpenCheckpoint(StepFiles::PlaceOf(recovered.files, recovered.item));
  HF_RETURN_IF_ERROR(
      control_->Agree({"open", run_.options.run}, opened.status()));
  restore.checkpoint = *std::move(opened);
  restore.source =
      recovered.rebuilt_ranks.empty() && recovered.healed_block_count == 0
          ? "local"
          : "parity";
  restore.rebuilt_ranks = std::move(recovered.rebuilt_ranks);
  restore.healed_block_count = recovered.healed_block_count;
  restore.peer_bytes = run_.peers->received_bytes() - received_before;
  opened_files_ = std::move(recovered.files);
  opened_path_.clear();
  return Status();
}

Status TieredManagerImpl::OpenShared(const Candidate& candidate,
                                     TierRestore& restore) {
  opened_path_ = run_.options.shared.directory + "/" + candidate.name;
  OpenOptions options;
  auto opened = OpenCheckpoint(holdfast::Place(opened_path_), options);
  if (opened.ok() && (*opened)->info().items.contains(run_.options.item)) {
    options.item = run_.options.item;
    opened = OpenCheckpoint(holdfast::Place(opened_path_), options);
  }
  HF_RETURN_IF_ERROR(control_->Agree({"open", opened_path_}, opened.status()));
  restore.checkpoint = *std::move(opened);
  restore.source = "shared";
  opened_files_.reset();
  return Status();
}

Result<TierRestore> TieredManagerImpl::Open(
    std::optional<int64_t> step, const std::vector<std::string>& skip) {
  HF_RETURN_IF_ERROR(CheckOpen());
  // A failure of the last save is only a warning: its leftovers are not a step.
  const Status saved = WaitProtected();
  if (!saved.ok()) run_.Warn(std::string(saved.message()));
  return CatchBadAlloc([&] {
    return InGroupCall(control_.get(), [&] { return OpenInCall(step, skip); });
  });
}

Result<TierRestore> TieredManagerImpl::OpenInCall(
    std::optional<int64_t> step, const std::vector<std::string>& skip) {
  std::vector<std::vector<TierMember>> inventory;
  HF_ASSIGN_OR_RETURN(const std::vector<Candidate> candidates,
                      FindCandidates(inventory));
  TierRestore restore;
  for (const Candidate& candidate : candidates) {
    if (step && candidate.step.step != *step) continue;
    if (std::find(skip.begin(), skip.end(), candidate.id()) != skip.end()) {
      continue;
    }
    restore.step = candidate.step.step;
    restore.id = candidate.id();
    const Status opened = candidate.is_local
                              ? OpenLocal(candidate, inventory, restore)
                              : OpenShared(candidate, restore);
    if (opened.ok()) {
      if (IsDueStill(candidate, candidates)) StartDrain(candidate.step);
      return restore;
    }
    if (!IsDamage(opened)) return opened;
    restore.notes.push_back(
        "step " + std::to_string(candidate.step.step) + " of the " +
        (candidate.is_local ? "local" : "shared") +
        " tier is skipped: " + std::string(opened.message()));
    if (run_.rank() == 0) run_.Warn(restore.notes.back());
  }
  // NotFound would make a run start anew. So if there are steps but none could
  // be restored, this is DataLoss.
  if (!restore.notes.empty()) {
    return DataLossError(NoStepText(step, restore.notes));
  }
  return NotFoundError(NoStepText(step, {}));
}

// Returns whether the step's run should have copied it to the shared tier, but
// did not.
bool TieredManagerImpl::IsDueStill(
    const Candidate& candidate,
    const std::vector<Candidate>& candidates) const {
  if (!candidate.is_local || !IsShared(candidate.step.step)) return false;
  return std::none_of(
      candidates.begin(), candidates.end(), [&](const Candidate& other) {
        return !other.is_local && other.step.step == candidate.step.step &&
               (other.step.epoch == 0 || other.step >= candidate.step);
      });
}

Result<std::string> TieredManagerImpl::ReadFile(const std::string& path) {
  if (opened_files_ == nullptr && opened_path_.empty()) {
    return FailedPreconditionError("tiered manager: no step is open");
  }
  Result<Bytes> bytes =
      opened_files_ != nullptr
          ? opened_files_->Read(path)
          : holdfast::Place(opened_path_).OpenStore()->Read(path);
  HF_RETURN_IF_ERROR(bytes.status());
  return bytes->ToString();
}

// --- Questions, and the end ---

Result<std::vector<TierStepInfo>> TieredManagerImpl::Steps() {
  std::map<TierStep, TierStepInfo> steps;
  const auto at = [&](const TierStep& step) -> TierStepInfo& {
    TierStepInfo& info = steps[step];
    info.step = step.step;
    info.epoch = step.epoch;
    return info;
  };
  HF_ASSIGN_OR_RETURN(const std::vector<TierMember> members,
                      run_.steps->List());
  for (const TierMember& member : members) {
    at(member.step).is_local = true;
    at(member.step).is_protected |= run_.steps->IsProtected(member);
  }
  HF_ASSIGN_OR_RETURN(const std::vector<SharedStep> shared,
                      ListSharedSteps(run_.options));
  for (const SharedStep& step : shared) at(step.step).is_shared = true;
  std::vector<TierStepInfo> infos;
  for (const auto& [step, info] : steps) infos.push_back(info);
  std::reverse(infos.begin(), infos.end());
  return infos;
}

TierStats TieredManagerImpl::stats() const {
  const std::lock_guard lock(run_.mutex);
  return run_.stats;
}

Status TieredManagerImpl::Close() {
  if (is_closed_) return Status();
  is_closed_ = true;
  const Status status = run_.peers == nullptr ? Status() : Wait();
  {
    const std::lock_guard lock(drain_mutex_);
    is_closing_ = true;
    drain_changed_.notify_all();
  }
  if (drainer_.joinable()) drainer_.join();
  // No rank exits while others still read from it. A rank exits once it has its
  // answer, possibly before rank 0 knows that the answer arrived, so a failure
  // here is ignored.
  if (control_ != nullptr) {
    static_cast<void>(control_->Agree(
        {"close", run_.options.run, kFarewellSeconds}, Status()));
  }
  return status;
}

}  // namespace

Result<std::unique_ptr<TieredManager>> TieredManager::Make(
    const TieredManagerOptions& options, ProcessGroup* group) {
  return CatchBadAlloc([&]() -> Result<std::unique_ptr<TieredManager>> {
    auto manager = std::make_unique<TieredManagerImpl>(options);
    HF_RETURN_IF_ERROR(
        InGroupCall(group, [&] { return manager->Start(group); }));
    return std::unique_ptr<TieredManager>(std::move(manager));
  });
}

Result<TierRestore> TieredManager::Restore(
    const std::function<Status(const TierRestore&)>& read,
    std::optional<int64_t> step) {
  std::vector<std::string> skip;
  std::vector<std::string> notes;
  for (;;) {
    Result<TierRestore> opened = Open(step, skip);
    if (opened.status().code() == StatusCode::kNotFound && !notes.empty()) {
      return DataLossError(NoStepText(step, notes));
    }
    HF_ASSIGN_OR_RETURN(TierRestore restore, std::move(opened));
    restore.notes.insert(restore.notes.begin(), notes.begin(), notes.end());
    const Status status = Agree(read(restore));
    if (status.ok()) return restore;
    if (!IsDamage(status) || status.code() == StatusCode::kInvalidArgument) {
      return status;
    }
    skip.push_back(restore.id);
    notes = restore.notes;
    notes.push_back("step " + std::to_string(restore.step) +
                    " is skipped: " + std::string(status.message()));
  }
}

}  // namespace holdfast
