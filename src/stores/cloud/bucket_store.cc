#include "stores/cloud/bucket_store.h"

#include <algorithm>
#include <utility>

#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "stores/cloud/upload_writer.h"
#include "stores/cloud/version_reads.h"
#include "stores/storage/piece_buffer.h"

namespace holdfast {
namespace {

constexpr int kSenderCountMax = 32;
// A queued write counts as this many bytes in addition to its own, so that the
// number of tiny writes is bounded, too.
constexpr uint64_t kQueuedWriteBytes = 4096;
constexpr int kListedAtOnce = 1000;
// If an object's parts must be sent in order, this many objects at once fill
// the connection.
constexpr int kWritersInOrder = 8;

std::string RootPrefix(std::string_view root_key) {
  return root_key.empty() ? "" : std::string(root_key) + "/";
}

Status AsAlreadyExists(const Status& status) {
  if (status.code() != StatusCode::kFailedPrecondition) return status;
  return AlreadyExistsError(std::string(status.message()));
}

}  // namespace

BucketStore::BucketStore(std::shared_ptr<Bucket> bucket,
                         std::string_view root_key, BucketStoreOptions options)
    : bucket_(std::move(bucket)),
      root_(RootPrefix(root_key)),
      buffered_bytes_max_(options.buffered_bytes_max),
      queue_(MakeInProcess<SendQueue>(
          std::min(kSenderCountMax, bucket_->traits().requests_in_flight),
          options.buffered_bytes_max)) {}

std::string BucketStore::Describe(std::string_view key) const {
  return bucket_->UrlOf(KeyOf(key));
}

int BucketStore::requests_in_flight() const {
  return bucket_->traits().requests_in_flight;
}

void BucketStore::Remember(const ObjectEntry& entry) {
  seen_.Found(entry.key, seen_.Look(entry.key).epoch, entry.version,
              entry.byte_count);
}

int BucketStore::writers_in_flight() const {
  return bucket_->traits().parts_in_order ? kWritersInOrder : 1;
}

void BucketStore::BoundBuffers(uint64_t bytes_max) {
  // With room for less than two parts, an upload would stall: one part is sent
  // while the next is filled.
  const uint64_t least = 2 * bucket_->part_bytes(0);
  queue_->SetBytesMax(
      std::min(buffered_bytes_max_, std::max(bytes_max, least)));
}

Result<ObjectInfo> BucketStore::Stat(std::string_view key) {
  HF_RETURN_IF_ERROR(CheckKey(key));
  const std::string bucket_key = KeyOf(key);
  WaitForKey(bucket_key);
  HF_ASSIGN_OR_RETURN(const ObjectEntry entry,
                      StatVersion(*bucket_, seen_, bucket_key));
  return ObjectInfo{entry.byte_count, entry.modified_ns};
}

Result<Bytes> BucketStore::Read(std::string_view key, ByteRange range) {
  HF_RETURN_IF_ERROR(CheckKey(key));
  const std::string bucket_key = KeyOf(key);
  WaitForKey(bucket_key);
  return ReadVersion(*bucket_, seen_, bucket_key, range);
}

Status BucketStore::ReadInto(std::string_view key, uint64_t offset,
                             std::span<char> target) {
  const RangeRead read{key, offset, target};
  return ReadBatch({&read, 1});
}

Status BucketStore::ReadBatch(std::span<const RangeRead> requests,
                              const CancelToken* cancel) {
  if (cancel != nullptr) HF_RETURN_IF_ERROR(cancel->Check());
  std::vector<VersionRead> reads;
  for (const RangeRead& request : requests) {
    HF_RETURN_IF_ERROR(CheckKey(request.key));
    reads.push_back({KeyOf(request.key), request.offset, request.target});
    WaitForKey(reads.back().key);
  }
  return ReadVersions(*bucket_, seen_, reads, cancel);
}

Status BucketStore::List(
    std::string_view prefix,
    const std::function<Status(std::string_view, const ObjectInfo&)>& fn) {
  ListRequest request;
  request.prefix = KeyOf(prefix);
  request.entry_count_max = kListedAtOnce;
  WaitForPrefix(request.prefix);
  do {
    HF_ASSIGN_OR_RETURN(const ListPage page, bucket_->List(request));
    for (const ObjectEntry& entry : page.objects) {
      if (!entry.key.starts_with(request.prefix)) continue;
      // A bucket may hold keys that a Store cannot have ("a//b"). They are left
      // out.
      const std::string_view key =
          std::string_view(entry.key).substr(root_.size());
      if (!CheckKey(key).ok()) continue;
      Remember(entry);
      HF_RETURN_IF_ERROR(
          fn(key, ObjectInfo{entry.byte_count, entry.modified_ns}));
    }
    request.page_token = page.next_page_token;
  } while (!request.page_token.empty());
  return {};
}

Status BucketStore::Write(std::string_view key,
                          std::span<const std::string_view> pieces,
                          const WriteOptions& options) {
  HF_RETURN_IF_ERROR(CheckKey(key));
  const std::string bucket_key = KeyOf(key);
  const bool may_queue =
      options.may_queue ||
      (!options.sync && !options.atomic && !options.must_create);
  // The failure of an earlier queued write is reported here, because its caller
  // has already returned.
  if (may_queue) HF_RETURN_IF_ERROR(FirstFailure());
  WaitForKey(bucket_key);
  const Condition condition =
      options.must_create ? Condition::Absent() : Condition::None();
  if (TotalBytes(pieces) > bucket_->traits().put_bytes_max) {
    return PutInParts(bucket_key, pieces, condition, !may_queue);
  }
  return may_queue ? PutLater(bucket_key, pieces, condition)
                   : PutNow(bucket_key, pieces, condition);
}

Status BucketStore::PutNow(const std::string& bucket_key,
                           std::span<const std::string_view> pieces,
                           const Condition& condition) {
  // Earlier reads must not be recorded as reads of the new version
  // (seen_versions.h).
  seen_.WriteBegins(bucket_key);
  const Result<std::string> version =
      bucket_->Put(bucket_key, pieces, condition);
  if (version.ok()) {
    seen_.WriteEnded(bucket_key, *version, TotalBytes(pieces));
  } else {
    seen_.WriteEnded(bucket_key);
  }
  return AsAlreadyExists(version.status());
}

Status BucketStore::PutLater(const std::string& bucket_key,
                             std::span<const std::string_view> pieces,
                             const Condition& condition) {
  const uint64_t held_bytes = TotalBytes(pieces) + kQueuedWriteBytes;
  HF_RETURN_IF_ERROR(queue_->Take(held_bytes)
                         .WithContext("write " + bucket_->UrlOf(bucket_key)));
  // Copies the caller's bytes, which may be freed before the write is sent.
  Result<Bytes> bytes = JoinPieces(pieces, bucket_->UrlOf(bucket_key));
  if (!bytes.ok()) {
    queue_->Release(held_bytes);
    return bytes.status();
  }
  WriteBegins(bucket_key);
  const auto put = [this, bucket_key, bytes = *std::move(bytes), condition,
                    held_bytes] {
    const std::string_view piece = bytes.view();
    const Result<std::string> version = CatchBadAlloc(
        [&] { return bucket_->Put(bucket_key, {&piece, 1}, condition); });
    // The memory is released first, so that a waiting writer continues while
    // the answer is recorded.
    queue_->Release(held_bytes);
    WriteEnded(bucket_key, version, bytes.size(), false);
  };
  const Status started = CatchBadAlloc([&] { return queue_->Start(put); });
  if (!started.ok()) {
    queue_->Release(held_bytes);
    WriteEnded(bucket_key, started, 0, true);
  }
  return started;
}

Status BucketStore::PutInParts(const std::string& bucket_key,
                               std::span<const std::string_view> pieces,
                               const Condition& condition, bool waits) {
  const std::unique_ptr<ObjectWriter> writer =
      MakeWriter(bucket_key, condition);
  HF_RETURN_IF_ERROR(writer->WriteAt(0, pieces));
  return AsAlreadyExists(writer->Finish(waits));
}

std::unique_ptr<ObjectWriter> BucketStore::MakeWriter(
    const std::string& bucket_key, Condition condition) {
  UploadTarget target;
  target.bucket = bucket_.get();
  target.queue = queue_.get();
  target.pool = &pool_;
  target.key = bucket_key;
  target.condition = std::move(condition);
  target.begins = [this, bucket_key] {
    WaitForKey(bucket_key);
    WriteBegins(bucket_key);
  };
  target.ended = [this, bucket_key](const Result<std::string>& version,
                                    uint64_t byte_count, bool is_told) {
    WriteEnded(bucket_key, version, byte_count, is_told);
  };
  return std::make_unique<UploadWriter>(std::move(target));
}

Result<std::unique_ptr<ObjectWriter>> BucketStore::Create(
    std::string_view key) {
  HF_RETURN_IF_ERROR(CheckKey(key));
  return MakeWriter(KeyOf(key), Condition::None());
}

Status BucketStore::Delete(std::string_view key) {
  HF_RETURN_IF_ERROR(CheckKey(key));
  const std::string bucket_key = KeyOf(key);
  WaitForKey(bucket_key);
  seen_.WriteBegins(bucket_key);
  const Status status = bucket_->Delete(bucket_key);
  seen_.WriteEnded(bucket_key);
  return status;
}

Status BucketStore::Flush() {
  std::unique_lock lock(mutex_);
  settled_.wait(lock, [this] { return queued_.empty(); });
  return std::exchange(first_failure_, Status());
}

void BucketStore::WriteBegins(const std::string& bucket_key) {
  seen_.WriteBegins(bucket_key);
  std::lock_guard lock(mutex_);
  ++queued_[bucket_key];
}

void BucketStore::WriteEnded(const std::string& bucket_key,
                             const Result<std::string>& version,
                             uint64_t byte_count, bool is_told) {
  if (version.ok()) {
    seen_.WriteEnded(bucket_key, *version, byte_count);
  } else {
    seen_.WriteEnded(bucket_key);
  }
  std::lock_guard lock(mutex_);
  if (first_failure_.ok() && !is_told) {
    first_failure_ =
        CatchBadAlloc([&] { return AsAlreadyExists(version.status()); });
  }
  const auto it = queued_.find(bucket_key);
  if (--it->second == 0) queued_.erase(it);
  settled_.notify_all();
}

Status BucketStore::FirstFailure() {
  std::lock_guard lock(mutex_);
  return first_failure_;
}

void BucketStore::WaitForKey(const std::string& bucket_key) {
  std::unique_lock lock(mutex_);
  settled_.wait(lock, [&] { return !queued_.contains(bucket_key); });
}

void BucketStore::WaitForPrefix(const std::string& bucket_prefix) {
  std::unique_lock lock(mutex_);
  settled_.wait(lock, [&] {
    const auto it = queued_.lower_bound(bucket_prefix);
    return it == queued_.end() || !it->first.starts_with(bucket_prefix);
  });
}

}  // namespace holdfast
