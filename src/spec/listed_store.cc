#include "spec/listed_store.h"

#include <vector>

#include "base/status_macros.h"
#include "checkpoint/checked_store.h"
#include "checkpoint/format/directory_names.h"
#include "place/open_store.h"
#include "storage/url_path.h"

namespace holdfast::spec {

Result<ListedStore::Reader> ListedStore::FindReader() {
  const std::string parent = ParentDirectory(directory_);
  for (Reader reader :
       {Reader{store_, ""},
        Reader{StoreAt(parent), FileNameOf(directory_) + "/"}}) {
    HF_ASSIGN_OR_RETURN(std::optional<DigestIndex> list,
                        DigestIndex::Read(*reader.store));
    if (!list) continue;
    reader.store = std::make_shared<CheckedStore>(
        reader.store, std::make_shared<const DigestIndex>(*std::move(list)));
    return reader;
  }
  return Reader{store_, ""};
}

Result<ListedStore::Reader> ListedStore::ReaderNow() {
  if (is_written_.load(std::memory_order_acquire)) return Reader{store_, ""};
  const std::lock_guard lock(mutex_);
  if (reader_.store == nullptr) {
    HF_ASSIGN_OR_RETURN(reader_, FindReader());
  }
  return reader_;
}

Status ListedStore::DropList() {
  if (is_written_.load(std::memory_order_acquire)) return Status();
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Store> parent = StoreAt(ParentDirectory(directory_));
  for (Store* const store : {store_.get(), parent.get()}) {
    const Status found = store->Stat(kDigestFile).status();
    if (found.code() == StatusCode::kNotFound) continue;
    HF_RETURN_IF_ERROR(found);
    HF_RETURN_IF_ERROR(store->Delete(kDigestFile));
    break;
  }
  is_written_.store(true, std::memory_order_release);
  return Status();
}

Result<ObjectInfo> ListedStore::Stat(std::string_view key) {
  HF_ASSIGN_OR_RETURN(const Reader reader, ReaderNow());
  return reader.store->Stat(reader.prefix + std::string(key));
}

Result<Bytes> ListedStore::Read(std::string_view key, ByteRange range) {
  HF_ASSIGN_OR_RETURN(const Reader reader, ReaderNow());
  return reader.store->Read(reader.prefix + std::string(key), range);
}

Status ListedStore::ReadInto(std::string_view key, uint64_t offset,
                             std::span<char> target) {
  HF_ASSIGN_OR_RETURN(const Reader reader, ReaderNow());
  return reader.store->ReadInto(reader.prefix + std::string(key), offset,
                                target);
}

Status ListedStore::ReadBatch(std::span<const RangeRead> requests,
                              const CancelToken* cancel) {
  HF_ASSIGN_OR_RETURN(const Reader reader, ReaderNow());
  std::vector<std::string> keys;
  keys.reserve(requests.size());
  std::vector<RangeRead> reads(requests.begin(), requests.end());
  for (RangeRead& read : reads) {
    read.key = keys.emplace_back(reader.prefix + std::string(read.key));
  }
  return reader.store->ReadBatch(reads, cancel);
}

Status ListedStore::Write(std::string_view key,
                          std::span<const std::string_view> pieces,
                          const WriteOptions& options) {
  HF_RETURN_IF_ERROR(DropList());
  return store_->Write(key, pieces, options);
}

Result<std::unique_ptr<ObjectWriter>> ListedStore::Create(
    std::string_view key) {
  HF_RETURN_IF_ERROR(DropList());
  return store_->Create(key);
}

Status ListedStore::Delete(std::string_view key) {
  HF_RETURN_IF_ERROR(DropList());
  return store_->Delete(key);
}

}  // namespace holdfast::spec
