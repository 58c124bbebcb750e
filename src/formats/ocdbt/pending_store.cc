#include "formats/ocdbt/pending_store.h"

#include <cstring>
#include <utility>
#include <vector>

#include "formats/ocdbt/append.h"
#include "ground/base/status_macros.h"
#include "stores/storage/piece_buffer.h"

namespace holdfast::ocdbt {

// Collects an object in memory; Finish makes it a change of the store.
class PendingStore::Writer : public ObjectWriter {
 public:
  Writer(PendingStore* store, std::string key)
      : store_(store), key_(std::move(key)) {}

  Status WriteAt(uint64_t offset,
                 std::span<const std::string_view> pieces) override {
    if (finished_) return AlreadyFinished();
    return buffer_.Add(offset, pieces, store_->Describe(key_));
  }

  Status Finish(bool /*sync*/) override {
    if (finished_) return AlreadyFinished();
    HF_ASSIGN_OR_RETURN(Bytes value, buffer_.Join(store_->Describe(key_)));
    finished_ = true;
    store_->Set(key_, std::move(value));
    return Status();
  }

 private:
  Status AlreadyFinished() const {
    return FailedPreconditionError("writing " + store_->Describe(key_) +
                                   ": the object is already complete");
  }

  PendingStore* const store_;
  const std::string key_;
  PieceBuffer buffer_;
  bool finished_ = false;
};

PendingStore::PendingStore(std::shared_ptr<Store> base, std::string directory,
                           const BulkWriteOptions& options,
                           const OpenOptions& open_options)
    : base_(std::move(base)),
      directory_(std::move(directory)),
      options_(options),
      open_options_(open_options) {}

Result<std::unique_ptr<PendingStore>> PendingStore::Open(
    std::shared_ptr<Store> base, std::string directory,
    const BulkWriteOptions& options, const OpenOptions& open_options) {
  HF_RETURN_IF_ERROR(CheckBulkWriteOptions(options, directory));
  std::unique_ptr<PendingStore> store(new PendingStore(
      std::move(base), std::move(directory), options, open_options));
  HF_RETURN_IF_ERROR(store->Reopen());
  return store;
}

Status PendingStore::Reopen() {
  const std::string manifest = directory_ + std::string(kManifestName);
  const Result<ObjectInfo> info = base_->Stat(manifest);
  if (info.status().code() == StatusCode::kNotFound) return Status();
  HF_RETURN_IF_ERROR(info.status());
  HF_ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                      Database::Open(base_.get(), directory_, open_options_));
  stored_ = std::make_unique<OcdbtStore>(std::move(database));
  return Status();
}

Status PendingStore::Commit() {
  std::lock_guard lock(mutex_);
  if (changes_.empty()) return Status();
  std::vector<AppendEntry> entries;
  for (const auto& [key, change] : changes_) {
    // A removed key has no entry here. It is only in `changes_`, so its old
    // value is dropped below.
    if (change) entries.push_back(BorrowEntry(key, change->view()));
  }
  HF_RETURN_IF_ERROR(AppendEntries(base_.get(), directory_, entries, options_,
                                   [&](std::string_view key) {
                                     return changes_.contains(key);
                                   })
                         .status());
  changes_.clear();
  return Reopen();
}

std::string PendingStore::Describe(std::string_view key) const {
  return base_->Describe(directory_) + "|ocdbt:" + std::string(key);
}

Status PendingStore::Absent(std::string_view key) const {
  return NotFoundError(
      "Key \"" + std::string(key) + "\" is not in " +
      base_->Describe(directory_ + std::string(kManifestName)));
}

std::optional<PendingStore::Change> PendingStore::Find(
    std::string_view key) const {
  std::lock_guard lock(mutex_);
  const auto found = changes_.find(key);
  if (found != changes_.end()) return found->second;
  // There is no database yet, so every other key counts as removed.
  if (stored_ == nullptr) return Change();
  return std::nullopt;
}

void PendingStore::Set(std::string_view key, Change change) {
  std::lock_guard lock(mutex_);
  changes_.insert_or_assign(std::string(key), std::move(change));
}

Result<ObjectInfo> PendingStore::Stat(std::string_view key) {
  const std::optional<Change> change = Find(key);
  if (!change) return stored_->Stat(key);
  if (!*change) return Absent(key);
  return ObjectInfo{(*change)->size()};
}

Result<Bytes> PendingStore::Read(std::string_view key, ByteRange range) {
  const std::optional<Change> change = Find(key);
  if (!change) return stored_->Read(key, range);
  if (!*change) return Absent(key);
  const Bytes& value = **change;
  HF_ASSIGN_OR_RETURN(range, ResolveRange(range, value.size(), Describe(key)));
  return value.Slice(range.offset, range.byte_count);
}

Status PendingStore::ReadInto(std::string_view key, uint64_t offset,
                              std::span<char> target) {
  if (!Find(key)) return stored_->ReadInto(key, offset, target);
  HF_ASSIGN_OR_RETURN(const Bytes bytes, Read(key, {offset, target.size()}));
  if (!target.empty()) {
    std::memcpy(target.data(), bytes.data(), target.size());
  }
  return Status();
}

Status PendingStore::List(
    std::string_view prefix,
    const std::function<Status(std::string_view key, const ObjectInfo& info)>&
        fn) {
  std::map<std::string, ObjectInfo, std::less<>> found;
  if (stored_ != nullptr) {
    HF_RETURN_IF_ERROR(stored_->List(
        prefix, [&](std::string_view key, const ObjectInfo& info) {
          found.emplace(key, info);
          return Status();
        }));
  }
  {
    std::lock_guard lock(mutex_);
    for (auto it = changes_.lower_bound(prefix);
         it != changes_.end() && it->first.starts_with(prefix); ++it) {
      if (it->second) {
        found[it->first] = ObjectInfo{it->second->size()};
      } else {
        found.erase(it->first);
      }
    }
  }
  for (const auto& [key, info] : found) HF_RETURN_IF_ERROR(fn(key, info));
  return Status();
}

Status PendingStore::Write(std::string_view key,
                           std::span<const std::string_view> pieces,
                           const WriteOptions& options) {
  if (options.must_create && Stat(key).ok()) {
    return AlreadyExistsError("Error writing " + Describe(key) +
                              ": it exists already");
  }
  HF_ASSIGN_OR_RETURN(Bytes value, JoinPieces(pieces, Describe(key)));
  Set(key, std::move(value));
  return Status();
}

Result<std::unique_ptr<ObjectWriter>> PendingStore::Create(
    std::string_view key) {
  return std::unique_ptr<ObjectWriter>(
      std::make_unique<Writer>(this, std::string(key)));
}

Status PendingStore::Delete(std::string_view key) {
  Set(key, std::nullopt);
  return Status();
}

}  // namespace holdfast::ocdbt
