#include "stores/cloud/upload_writer.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "stores/cloud/part_buffer.h"

namespace holdfast {
namespace {

// No store accepts more parts, so an offset beyond them is a mistake.
constexpr uint64_t kPartCountMax = 100'000;

}  // namespace

// The state that the writer and the tasks that send its parts share.
class UploadWriter::Sending : public std::enable_shared_from_this<Sending> {
 public:
  explicit Sending(UploadTarget target) : target_(std::move(target)) {}

  Status WriteAt(uint64_t offset, std::span<const std::string_view> pieces);
  Status Finish(bool sync);
  void Abandon();

 private:
  struct Part {
    PartBuffer buffer;
    bool is_under_way = false;
  };
  using Lock = std::unique_lock<std::mutex>;

  std::string Url() const { return target_.bucket->UrlOf(target_.key); }
  Status WrittenTwice(uint64_t offset) const {
    return InvalidArgumentError("write " + Url() + ": offset " +
                                std::to_string(offset) + " is written twice");
  }
  Status CheckLive() const;  // REQUIRES: mutex_ held
  Status Kill(Status status);
  Result<uint64_t> PartOf(uint64_t offset);  // REQUIRES: mutex_ held
  Status Copy(uint64_t offset, std::string_view bytes);
  Result<std::shared_ptr<Buffer>> BlockFor(Lock& lock, uint64_t index,
                                           uint64_t offset);
  void CutParts();  // REQUIRES: mutex_ held
  void Schedule();  // REQUIRES: mutex_ held
  void ScheduleParts();
  bool IsSendable(uint64_t index, const Part& part) const;
  // Returns false if no thread can run the task; the upload has then failed.
  template <typename Task>
  bool StartTask(const Task& task);  // REQUIRES: mutex_ held
  void Begin();
  void SendPart(uint64_t index);
  void PutWhole();
  void FinishUpload();
  void EndWith(Result<std::string> version);
  // Ends a task; if it failed, the entire upload fails.
  void EndTask(Lock& lock, const Status& status);
  void Settle(Lock& lock, const Result<std::string>& version);
  void DropParts();

  const UploadTarget target_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Status status_;            // the first failure of a request
  bool is_refused_ = false;  // a call was invalid
  bool is_finishing_ = false;
  bool is_settled_ = false;
  bool is_waited_for_ = false;
  std::optional<Result<std::string>> outcome_;
  uint64_t end_ = 0;         // of what has been written so far
  uint64_t part_count_ = 0;  // set by Finish
  std::vector<uint64_t> part_begins_ = {0};
  std::map<uint64_t, Part> parts_;  // those not sent yet
  uint64_t sent_count_ = 0;
  std::vector<bool> is_sent_;  // by part index
  uint64_t parts_under_way_ = 0;
  uint64_t tasks_under_way_ = 0;
  enum class Stage : uint8_t { kNone, kBeginning, kOpen, kEnding };
  Stage stage_ = Stage::kNone;
  std::unique_ptr<Upload> upload_;
};

Status UploadWriter::Sending::CheckLive() const {
  HF_RETURN_IF_ERROR(status_);
  if (!is_refused_ && !is_finishing_) return {};
  return FailedPreconditionError("write " + Url() +
                                 ": the writer is finished or has failed");
}

Status UploadWriter::Sending::Kill(Status status) {
  std::lock_guard lock(mutex_);
  is_refused_ = true;
  return status;
}

Result<uint64_t> UploadWriter::Sending::PartOf(uint64_t offset) {
  while (part_begins_.back() <= offset) {
    const uint64_t index = part_begins_.size() - 1;
    if (index == kPartCountMax) {
      return InvalidArgumentError("write " + Url() + ": offset " +
                                  std::to_string(offset) +
                                  " is past the largest object that the "
                                  "store can hold");
    }
    part_begins_.push_back(part_begins_.back() +
                           target_.bucket->part_bytes(index));
  }
  const auto after =
      std::upper_bound(part_begins_.begin(), part_begins_.end(), offset);
  return static_cast<uint64_t>(after - part_begins_.begin()) - 1;
}

// Returns the part's block that contains `offset`, allocating it if needed.
// Releases the lock while it waits for memory.
Result<std::shared_ptr<Buffer>> UploadWriter::Sending::BlockFor(
    Lock& lock, uint64_t index, uint64_t offset) {
  if (index < is_sent_.size() && is_sent_[index]) {
    return WrittenTwice(part_begins_[index] + offset);
  }
  const auto [it, is_new] = parts_.try_emplace(index);
  if (is_new) {
    it->second.buffer =
        PartBuffer(part_begins_[index + 1] - part_begins_[index]);
    Schedule();  // earlier parts are now known not to be last
  }
  if (it->second.buffer.is_full()) {
    return WrittenTwice(part_begins_[index] + offset);
  }
  std::shared_ptr<Buffer> block = it->second.buffer.BlockAt(offset);
  if (block != nullptr) return block;
  const uint64_t block_bytes = it->second.buffer.block_bytes(offset);
  lock.unlock();
  const Status taken = target_.queue->Take(block_bytes);
  std::shared_ptr<Buffer> fresh;
  // While the lock was released, another writer may have made the block, or the
  // upload may have failed.
  if (taken.ok()) fresh = target_.pool->Get(block_bytes);
  lock.lock();
  if (!taken.ok()) return taken.WithContext("write " + Url());
  Status status = CheckLive();
  if (status.ok() && fresh == nullptr) {
    status = ResourceExhaustedError("write " + Url() + ": no memory");
  }
  if (status.ok()) block = parts_[index].buffer.BlockAt(offset);
  if (!status.ok() || block != nullptr) {  // another writer was faster
    target_.queue->Release(block_bytes);
    if (!status.ok()) return status;
    return block;
  }
  parts_[index].buffer.SetBlock(offset, fresh);
  return fresh;
}

Status UploadWriter::Sending::Copy(uint64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    Lock lock(mutex_);
    HF_RETURN_IF_ERROR(CheckLive());
    HF_ASSIGN_OR_RETURN(const uint64_t index, PartOf(offset));
    const uint64_t within = offset - part_begins_[index];
    HF_ASSIGN_OR_RETURN(const std::shared_ptr<Buffer> block,
                        BlockFor(lock, index, within));
    const uint64_t block_offset = within % PartBuffer::kBlockBytes;
    const uint64_t block_bytes = parts_[index].buffer.block_bytes(within);
    const uint64_t count =
        std::min<uint64_t>(bytes.size(), block_bytes - block_offset);
    lock.unlock();
    std::memcpy(block->data() + block_offset, bytes.data(), count);
    // The bytes are marked as filled only after the copy, because another
    // thread sends a full buffer immediately.
    lock.lock();
    HF_RETURN_IF_ERROR(CheckLive());
    PartBuffer& buffer = parts_[index].buffer;
    if (!buffer.MarkFilled(within, count)) return WrittenTwice(offset);
    end_ = std::max(end_, offset + count);
    if (buffer.is_full()) Schedule();
    bytes.remove_prefix(count);
    offset += count;
  }
  return {};
}

Status UploadWriter::Sending::WriteAt(
    uint64_t offset, std::span<const std::string_view> pieces) {
  {
    std::lock_guard lock(mutex_);
    HF_RETURN_IF_ERROR(CheckLive());
  }
  const Status range = CheckWriteRange(offset, TotalBytes(pieces), Url());
  if (!range.ok()) return Kill(range);
  for (const std::string_view piece : pieces) {
    const Status status = Copy(offset, piece);
    if (!status.ok()) return Kill(status);
    offset += piece.size();
  }
  return {};
}

// Called when the size is known: ends the last part there, and fills gaps with
// zeros.
void UploadWriter::Sending::CutParts() {
  part_count_ = end_ == 0 ? 1 : *PartOf(end_ - 1) + 1;
  if (end_ == 0) (void)PartOf(0);
  for (auto& [index, part] : parts_) {
    if (part.is_under_way) continue;
    part.buffer.Cut(std::min(part_begins_[index + 1], end_) -
                    part_begins_[index]);
  }
  is_sent_.resize(part_count_);
  const auto last = parts_.find(part_count_ - 1);
  const bool last_has_gone = last == parts_.end() ? is_sent_[part_count_ - 1]
                                                  : last->second.is_under_way;
  if (last_has_gone && target_.bucket->traits().parts_in_order) {
    // The last part was sent without a mark, so an empty part marks the end.
    (void)PartOf(end_);
    is_sent_.resize(++part_count_);
  }
  // Parts that were never written are filled with zeros when they are sent.
  for (uint64_t index = 0; index < part_count_; ++index) {
    if (is_sent_[index] || parts_.contains(index)) continue;
    const uint64_t end = std::min(part_begins_[index + 1], end_);
    Part& part = parts_[index];
    part.buffer = PartBuffer(end - part_begins_[index]);
    part.buffer.Cut(end - part_begins_[index]);
  }
}

Status UploadWriter::Sending::Finish(bool sync) {
  Lock lock(mutex_);
  HF_RETURN_IF_ERROR(CheckLive());
  if (target_.begins) {
    lock.unlock();
    target_.begins();
    lock.lock();
  }
  is_finishing_ = true;
  is_waited_for_ = sync;
  CutParts();
  Schedule();
  if (!status_.ok() && tasks_under_way_ == 0) Settle(lock, status_);
  if (!sync) return {};
  changed_.wait(lock, [this] { return is_settled_; });
  return outcome_->status();
}

void UploadWriter::Sending::Abandon() {
  Lock lock(mutex_);
  if (is_finishing_) return;  // the tasks complete the object
  is_refused_ = true;
  if (status_.ok()) status_ = CancelledError("write " + Url() + ": abandoned");
  changed_.wait(lock, [this] { return tasks_under_way_ == 0; });
  DropParts();
  const std::unique_ptr<Upload> aborted = std::move(upload_);
  lock.unlock();
}

bool UploadWriter::Sending::IsSendable(uint64_t index, const Part& part) const {
  if (part.is_under_way || !part.buffer.is_full()) return false;
  // If there is only one part so far, it may be the complete object, which one
  // PUT can send.
  const bool may_be_all = index == 0 && part_begins_.size() == 2;
  if (!is_finishing_ && may_be_all) return false;
  if (!target_.bucket->traits().parts_in_order) return true;
  return index == sent_count_ && parts_under_way_ == 0;
}

void UploadWriter::Sending::Schedule() {
  if (!status_.ok()) return;
  if (stage_ == Stage::kOpen) return ScheduleParts();
  if (stage_ != Stage::kNone) return;
  const uint64_t put_bytes_max = target_.bucket->traits().put_bytes_max;
  if (is_finishing_ && end_ <= put_bytes_max) {
    stage_ = Stage::kEnding;
    StartTask([](Sending& self) { self.PutWhole(); });
    return;
  }
  const bool has_work = std::any_of(
      parts_.begin(), parts_.end(),
      [this](const auto& part) { return IsSendable(part.first, part.second); });
  if (!has_work) return;
  stage_ = Stage::kBeginning;
  StartTask([](Sending& self) { self.Begin(); });
}

void UploadWriter::Sending::ScheduleParts() {
  for (auto& [index, part] : parts_) {
    if (!IsSendable(index, part)) continue;
    if (!StartTask([index](Sending& self) { self.SendPart(index); })) return;
    part.is_under_way = true;
    ++parts_under_way_;
  }
  if (is_finishing_ && sent_count_ == part_count_) {
    stage_ = Stage::kEnding;
    StartTask([](Sending& self) { self.FinishUpload(); });
  }
}

template <typename Task>
bool UploadWriter::Sending::StartTask(const Task& task) {
  const Status started = CatchBadAlloc([&] {
    return target_.queue->Start(
        [self = shared_from_this(), task] { task(*self); });
  });
  if (started.ok()) {
    ++tasks_under_way_;
  } else if (status_.ok()) {
    status_ = started;
  }
  return started.ok();
}

void UploadWriter::Sending::Begin() {
  Result<std::unique_ptr<Upload>> upload =
      CatchBadAlloc([&] { return target_.bucket->StartUpload(target_.key); });
  Lock lock(mutex_);
  stage_ = Stage::kOpen;
  const Status status = upload.status();
  if (upload.ok()) upload_ = *std::move(upload);
  EndTask(lock, status);
}

void UploadWriter::Sending::SendPart(uint64_t index) {
  Lock lock(mutex_);
  Status status = status_;
  const PartBuffer& buffer = parts_.find(index)->second.buffer;
  std::vector<std::string_view> pieces;
  const Status prepared = CatchBadAlloc([&] {
    pieces = buffer.Pieces();
    is_sent_.resize(std::max<size_t>(is_sent_.size(), index + 1));
    return Status();
  });
  if (status.ok()) status = prepared;
  const bool is_last = is_finishing_ && index + 1 == part_count_;
  lock.unlock();
  if (status.ok()) {
    status =
        CatchBadAlloc([&] { return upload_->Part(index, pieces, is_last); });
  }
  lock.lock();
  target_.queue->Release(buffer.held_bytes());
  parts_.erase(index);
  --parts_under_way_;
  if (status.ok()) {
    ++sent_count_;
    is_sent_[index] = true;
  }
  EndTask(lock, status);
}

void UploadWriter::Sending::PutWhole() {
  EndWith(CatchBadAlloc([&] {
    std::vector<std::string_view> pieces;
    {
      std::lock_guard lock(mutex_);
      for (const auto& [index, part] : parts_) {
        const std::vector<std::string_view> more = part.buffer.Pieces();
        pieces.insert(pieces.end(), more.begin(), more.end());
      }
    }
    return target_.bucket->Put(target_.key, pieces, target_.condition);
  }));
}

void UploadWriter::Sending::FinishUpload() {
  EndWith(CatchBadAlloc([&] { return upload_->Finish(target_.condition); }));
}

void UploadWriter::Sending::EndWith(Result<std::string> version) {
  const Status status = version.status();
  Lock lock(mutex_);
  outcome_ = std::move(version);
  EndTask(lock, status);
}

// Ends a task. Called under the same lock that recorded the task's result,
// because a part that is neither present nor sent must never be visible without
// a failure.
void UploadWriter::Sending::EndTask(Lock& lock, const Status& status) {
  --tasks_under_way_;
  if (status_.ok()) status_ = status;
  if (status_.ok() && !outcome_) Schedule();
  if (!status_.ok()) DropParts();
  if (tasks_under_way_ == 0 && is_finishing_ && !is_settled_) {
    if (!status_.ok()) {
      Settle(lock, status_);
    } else if (outcome_) {
      Settle(lock, *outcome_);
    }
  }
  changed_.notify_all();
}

// Called when the object exists, or will never exist. Reports the outcome to
// the target.
void UploadWriter::Sending::Settle(Lock& lock,
                                   const Result<std::string>& version) {
  DropParts();
  outcome_ = version;
  const std::unique_ptr<Upload> over = std::move(upload_);
  const Result<std::string> told = version;
  lock.unlock();
  if (target_.ended) target_.ended(told, end_, is_waited_for_);
  lock.lock();
  is_settled_ = true;
  changed_.notify_all();
}

// Frees the parts that are not being sent. Those that are being sent stay until
// they have been sent. REQUIRES: mutex_ held.
void UploadWriter::Sending::DropParts() {
  for (auto it = parts_.begin(); it != parts_.end();) {
    if (it->second.is_under_way) {
      ++it;
      continue;
    }
    target_.queue->Release(it->second.buffer.held_bytes());
    it = parts_.erase(it);
  }
}

UploadWriter::UploadWriter(UploadTarget target)
    : sending_(std::make_shared<Sending>(std::move(target))) {}

UploadWriter::~UploadWriter() { sending_->Abandon(); }

Status UploadWriter::WriteAt(uint64_t offset,
                             std::span<const std::string_view> pieces) {
  return sending_->WriteAt(offset, pieces);
}

Status UploadWriter::Finish(bool sync) { return sending_->Finish(sync); }

}  // namespace holdfast
