#include "stores/storage/memory_store.h"

#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "ground/base/status_macros.h"
#include "stores/storage/piece_buffer.h"

namespace holdfast {

class MemoryStore::Writer : public ObjectWriter {
 public:
  Writer(MemoryStore* store, std::string key)
      : store_(store), key_(std::move(key)) {}

  Status WriteAt(uint64_t offset,
                 std::span<const std::string_view> pieces) override {
    HF_RETURN_IF_ERROR(CheckLive());
    Status status = pieces_.Add(offset, pieces, store_->Describe(key_));
    if (!status.ok()) dead_ = true;
    return status;
  }

  Status Finish(bool /*sync*/) override {
    HF_RETURN_IF_ERROR(CheckLive());
    dead_ = true;
    HF_ASSIGN_OR_RETURN(Bytes value, pieces_.Join(store_->Describe(key_)));
    store_->Put(key_, std::move(value));
    return {};
  }

 private:
  Status CheckLive() const {
    if (!dead_) return {};
    return FailedPreconditionError("write " + store_->Describe(key_) +
                                   ": the writer is finished or has failed");
  }

  MemoryStore* const store_;
  const std::string key_;
  std::atomic<bool> dead_{false};
  PieceBuffer pieces_;
};

MemoryStore::MemoryStore(std::string name) : name_(std::move(name)) {}

std::string MemoryStore::Describe(std::string_view key) const {
  return name_ + "/" + std::string(key);
}

Result<Bytes> MemoryStore::Find(std::string_view key) const {
  HF_RETURN_IF_ERROR(CheckKey(key));
  std::lock_guard lock(mutex_);
  const auto it = objects_.find(key);
  if (it != objects_.end()) return it->second;
  return NotFoundError("read " + Describe(key) + ": no such object");
}

Result<ObjectInfo> MemoryStore::Stat(std::string_view key) {
  HF_ASSIGN_OR_RETURN(Bytes value, Find(key));
  return ObjectInfo{value.size()};
}

Result<Bytes> MemoryStore::Read(std::string_view key, ByteRange range) {
  HF_ASSIGN_OR_RETURN(Bytes value, Find(key));
  HF_ASSIGN_OR_RETURN(range, ResolveRange(range, value.size(), Describe(key)));
  return value.Slice(range.offset, range.byte_count);
}

Status MemoryStore::ReadInto(std::string_view key, uint64_t offset,
                             std::span<char> target) {
  HF_ASSIGN_OR_RETURN(Bytes value, Read(key, {offset, target.size()}));
  if (!value.empty()) std::memcpy(target.data(), value.data(), value.size());
  return {};
}

Status MemoryStore::List(
    std::string_view prefix,
    const std::function<Status(std::string_view, const ObjectInfo&)>& fn) {
  // Collects the objects first, so that `fn` may call this store.
  std::vector<std::pair<std::string, ObjectInfo>> found;
  {
    std::lock_guard lock(mutex_);
    for (auto it = objects_.lower_bound(prefix);
         it != objects_.end() && it->first.starts_with(prefix); ++it) {
      found.push_back({it->first, {it->second.size()}});
    }
  }
  for (const auto& [key, info] : found) HF_RETURN_IF_ERROR(fn(key, info));
  return {};
}

Status MemoryStore::Write(std::string_view key,
                          std::span<const std::string_view> pieces,
                          const WriteOptions& options) {
  HF_RETURN_IF_ERROR(CheckKey(key));
  HF_ASSIGN_OR_RETURN(Bytes value, JoinPieces(pieces, Describe(key)));
  std::lock_guard lock(mutex_);
  const auto [it, is_new] = objects_.try_emplace(std::string(key));
  if (!is_new && options.must_create) {
    return AlreadyExistsError("write " + Describe(key) + ": it exists");
  }
  it->second = std::move(value);
  return {};
}

Result<std::unique_ptr<ObjectWriter>> MemoryStore::Create(
    std::string_view key) {
  HF_RETURN_IF_ERROR(CheckKey(key));
  return std::unique_ptr<ObjectWriter>(
      std::make_unique<Writer>(this, std::string(key)));
}

Status MemoryStore::Delete(std::string_view key) {
  HF_RETURN_IF_ERROR(CheckKey(key));
  std::lock_guard lock(mutex_);
  const auto it = objects_.find(key);
  if (it != objects_.end()) objects_.erase(it);
  return {};
}

Status MemoryStore::SyncNames() { return {}; }

void MemoryStore::Put(std::string_view key, Bytes value) {
  std::lock_guard lock(mutex_);
  objects_.insert_or_assign(std::string(key), std::move(value));
}

}  // namespace holdfast
