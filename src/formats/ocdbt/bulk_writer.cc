#include "formats/ocdbt/bulk_writer.h"

#include <cstring>
#include <optional>
#include <utility>

#include "formats/ocdbt/format/limits.h"
#include "ground/base/status_macros.h"

namespace holdfast::ocdbt {
namespace {

// The approximate limit of one system call.
constexpr uint64_t kBatchBytesMax = uint64_t{8} << 20;
constexpr size_t kBatchPiecesMax = 1024;

void CopyPieces(const EncodedChunk& chunk, char* target) {
  for (const std::string_view piece : chunk.pieces) {
    if (!piece.empty()) std::memcpy(target, piece.data(), piece.size());
    target += piece.size();
  }
}

Status CheckKeyLength(std::string_view key) {
  if (key.size() <= kKeyBytesMax) return Status();
  return InvalidArgumentError("Key of " + std::to_string(key.size()) +
                              " bytes exceeds limit of 65535");
}

}  // namespace

BulkWriter::BulkWriter(Store* store, std::string directory,
                       const BulkWriteOptions& options)
    : store_(store),
      directory_(std::move(directory)),
      options_(options),
      arena_(std::make_shared<TextArena>()),
      appender_(store, MakeDataFileOptions(options, directory_), &list_.files) {
  list_.owners.push_back(arena_);
}

Result<std::unique_ptr<BulkWriter>> BulkWriter::Create(
    Store* store, std::string directory, const BulkWriteOptions& options) {
  HF_RETURN_IF_ERROR(CheckBulkWriteOptions(options, directory));
  return std::unique_ptr<BulkWriter>(
      new BulkWriter(store, std::move(directory), options));
}

Status BulkWriter::Put(size_t index, std::string_view key, EncodedChunk value,
                       std::shared_ptr<const void> keepalive) {
  HF_RETURN_IF_ERROR(CheckKeyLength(key));
  Value owned{std::move(value), std::move(keepalive)};
  char* inline_target = nullptr;
  HF_RETURN_IF_ERROR(Record(index, key, owned, inline_target));
  if (inline_target != nullptr) CopyPieces(owned.chunk, inline_target);
  return WriteReady();
}

Status BulkWriter::MarkKnown(size_t index, std::string_view key) {
  if (index >= known_.size()) {
    known_.resize(index + 1);
    list_.entries.resize(index + 1);
  }
  if (known_[index]) {
    return InvalidArgumentError("Index " + std::to_string(index) +
                                " is given twice, now with key \"" +
                                std::string(key) + '"');
  }
  known_[index] = true;
  ++known_count_;
  list_.entries[index].key = arena_->Copy(key);
  return Status();
}

// Takes over the value, unless the caller must copy it to `inline_target`.
Status BulkWriter::Record(size_t index, std::string_view key, Value& value,
                          char*& inline_target) {
  const uint64_t byte_count = value.chunk.byte_count;
  std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(status_);
  HF_RETURN_IF_ERROR(MarkKnown(index, key));
  LeafEntry& entry = list_.entries[index];
  if (byte_count <= options_.max_inline_value_bytes) {
    // Reserved under the lock but copied outside it, since large copies must
    // not block other threads.
    if (byte_count != 0) inline_target = arena_->Allocate(byte_count);
    entry.SetInline({inline_target, static_cast<size_t>(byte_count)});
  } else {
    waiting_.emplace(index, std::move(value));
  }
  PlaceReady();
  return Status();
}

void BulkWriter::PlaceReady() {
  // Places are assigned strictly in index order, whatever order the values
  // arrive in, so the bytes do not depend on the number of threads. For
  // example, when 0, 2 and 3 are known, 2 and 3 wait for 1.
  for (; next_index_ < known_.size() && known_[next_index_]; ++next_index_) {
    const auto waiting = waiting_.find(next_index_);
    if (waiting == waiting_.end()) continue;  // inline
    const Reference place = appender_.Place(waiting->second.chunk.byte_count);
    list_.entries[next_index_].SetIndirect(place);
    ready_.push_back({place, std::move(waiting->second)});
    waiting_.erase(waiting);
  }
  turn_.notify_all();
}

BulkWriter::Batch BulkWriter::TakeBatch() {
  Batch batch;
  uint64_t byte_count = 0;
  size_t piece_count = 0;
  std::lock_guard lock(mutex_);
  while (!ready_.empty() && status_.ok()) {
    const PlacedValue& next = ready_.front();
    byte_count += next.place.byte_count;
    piece_count += next.value.chunk.pieces.size();
    // There may be a stream between two values that are ready.
    const bool joins =
        batch.empty() ||
        (batch.front().place.file_index == next.place.file_index &&
         batch.front().place.offset + byte_count ==
             next.place.offset + next.place.byte_count &&
         byte_count <= kBatchBytesMax && piece_count <= kBatchPiecesMax);
    if (!joins) break;
    batch.push_back(std::move(ready_.front()));
    ready_.pop_front();
  }
  return batch;
}

Status BulkWriter::WriteBatch(const Batch& batch) {
  Reference range = batch.front().place;
  range.byte_count = 0;
  std::vector<std::string_view> pieces;
  for (const PlacedValue& placed : batch) {
    range.byte_count += placed.place.byte_count;
    const auto& more = placed.value.chunk.pieces;
    pieces.insert(pieces.end(), more.begin(), more.end());
  }
  return appender_.Write(range, pieces);
}

// Writes the values that have places. They are independent, so every thread
// that calls this writes a share of them.
Status BulkWriter::WriteReady() {
  for (Batch batch = TakeBatch(); !batch.empty(); batch = TakeBatch()) {
    const Status status = WriteBatch(batch);
    if (status.ok()) continue;
    Abort(status);
    return status;
  }
  return Status();
}

void BulkWriter::Abort(const Status& status) {
  {
    std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = status;
  }
  // Streams that wait for their turn must see the failure.
  turn_.notify_all();
}

// A value that arrives in pieces. It is kept in memory until it is too large
// for the tree, and is then written after the values that have places.
class BulkWriter::StreamedValue {
 public:
  StreamedValue(uint64_t inline_bytes_max, DataFileAppender& appender)
      : inline_bytes_max_(inline_bytes_max), appender_(appender) {}

  Status Write(std::span<const std::string_view> pieces) {
    if (!place_ && head_.size() + TotalBytes(pieces) <= inline_bytes_max_) {
      for (const std::string_view piece : pieces) head_ += piece;
      return Status();
    }
    if (!place_) {
      place_ = appender_.StartStream();
      const std::string_view head = head_;
      if (!head.empty()) {
        HF_RETURN_IF_ERROR(appender_.AppendStream({&head, 1}, *place_));
      }
    }
    return appender_.AppendStream(pieces, *place_);
  }

  Status Finish() { return place_ ? appender_.EndStream(*place_) : Status(); }

  // Nullopt means that the value is stored in the tree.
  const std::optional<Reference>& place() const { return place_; }
  std::string_view inline_value() const { return head_; }

 private:
  const uint64_t inline_bytes_max_;
  DataFileAppender& appender_;
  std::string head_;
  std::optional<Reference> place_;
};

Status BulkWriter::WaitForTurn(size_t index) {
  std::unique_lock lock(mutex_);
  // While a stream is written, nothing may be placed after it, since its size
  // is unknown.
  turn_.wait(lock, [&] { return !status_.ok() || next_index_ >= index; });
  return status_;
}

Status BulkWriter::PutStream(size_t index, std::string_view key,
                             const StreamFn& produce) {
  HF_RETURN_IF_ERROR(CheckKeyLength(key));
  HF_RETURN_IF_ERROR(WaitForTurn(index));
  // next_index_ does not advance until the value is known below, so nothing is
  // placed after the stream in the meantime.
  StreamedValue value(options_.max_inline_value_bytes, appender_);
  Status status = produce([&](std::span<const std::string_view> pieces) {
    return value.Write(pieces);
  });
  if (status.ok()) status = value.Finish();
  if (!status.ok()) {
    Abort(status);
    return status;
  }
  {
    std::lock_guard lock(mutex_);
    HF_RETURN_IF_ERROR(status_);
    HF_RETURN_IF_ERROR(MarkKnown(index, key));
    LeafEntry& entry = list_.entries[index];
    if (value.place()) {
      entry.SetIndirect(*value.place());
    } else {
      entry.SetInline(arena_->Copy(value.inline_value()));
    }
    PlaceReady();
  }
  return WriteReady();
}

Result<BulkWriteSummary> BulkWriter::Finish() {
  HF_RETURN_IF_ERROR(status_);
  if (known_count_ != known_.size()) {
    return FailedPreconditionError("Index " + std::to_string(next_index_) +
                                   " of " + std::to_string(known_.size()) +
                                   " was never given");
  }
  // A second Finish must fail.
  status_ = FailedPreconditionError("The database was finished already");
  SortByKey(list_.entries);
  HF_RETURN_IF_ERROR(CheckKeysDiffer(list_.entries));
  return CommitEntries(store_, directory_, options_, appender_, list_);
}

}  // namespace holdfast::ocdbt
