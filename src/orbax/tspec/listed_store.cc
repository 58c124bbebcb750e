#include "orbax/tspec/listed_store.h"

#include "engine/check/checked_files.h"
#include "engine/check/checked_store.h"
#include "engine/format/directory_names.h"
#include "ground/base/status_macros.h"
#include "stores/place/place.h"
#include "stores/storage/url_path.h"

namespace holdfast::spec {

Result<std::shared_ptr<Store>> ListedStore::Reader() {
  if (is_written_.load(std::memory_order_acquire)) return store_;
  const std::lock_guard lock(mutex_);
  if (reader_ != nullptr) return reader_;
  HF_ASSIGN_OR_RETURN(const auto list,
                      CheckedFiles::ListFor(store_, Place(directory_)));
  reader_ = store_;
  if (list != nullptr) {
    reader_ = std::make_shared<CheckedStore>(store_, list);
  }
  return reader_;
}

Status ListedStore::DropList() {
  if (is_written_.load(std::memory_order_acquire)) return Status();
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Store> parent =
      Place(ParentDirectory(directory_)).OpenStore();
  // Removed before the first write, so that a crash in between cannot leave a
  // list that contradicts the bytes. The list is in the directory itself or,
  // for a parameter's directory, in the item above.
  for (Store* const store : {store_.get(), parent.get()}) {
    const Status found = store->Stat(kDigestFile).status();
    if (found.code() == StatusCode::kNotFound) continue;
    HF_RETURN_IF_ERROR(found);
    HF_RETURN_IF_ERROR(DropDigests(*store));
    break;
  }
  // Set only now, so that other threads wait for the mutex, and do not write
  // until the list is removed.
  is_written_.store(true, std::memory_order_release);
  return Status();
}

Result<ObjectInfo> ListedStore::Stat(std::string_view key) {
  HF_ASSIGN_OR_RETURN(const std::shared_ptr<Store> reader, Reader());
  return reader->Stat(key);
}

Result<Bytes> ListedStore::Read(std::string_view key, ByteRange range) {
  HF_ASSIGN_OR_RETURN(const std::shared_ptr<Store> reader, Reader());
  return reader->Read(key, range);
}

Status ListedStore::ReadInto(std::string_view key, uint64_t offset,
                             std::span<char> target) {
  HF_ASSIGN_OR_RETURN(const std::shared_ptr<Store> reader, Reader());
  return reader->ReadInto(key, offset, target);
}

Status ListedStore::ReadBatch(std::span<const RangeRead> requests,
                              const CancelToken* cancel) {
  HF_ASSIGN_OR_RETURN(const std::shared_ptr<Store> reader, Reader());
  return reader->ReadBatch(requests, cancel);
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
