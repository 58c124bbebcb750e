#include "twins/counting_store.h"

#include <utility>

#include "ground/base/status_macros.h"

namespace holdfast {

class CountingStore::Writer : public ObjectWriter {
 public:
  Writer(CountingStore* store, std::unique_ptr<ObjectWriter> inner)
      : store_(store), inner_(std::move(inner)) {}

  Status WriteAt(uint64_t offset,
                 std::span<const std::string_view> pieces) override {
    store_->Add(&StoreCounters::write_calls);
    HF_RETURN_IF_ERROR(inner_->WriteAt(offset, pieces));
    store_->Add(&StoreCounters::written_bytes, TotalBytes(pieces));
    return {};
  }

  Status Finish(bool sync) override {
    store_->Add(&StoreCounters::finish_calls);
    if (sync) store_->Add(&StoreCounters::synced_writes);
    return inner_->Finish(sync);
  }

 private:
  CountingStore* const store_;
  const std::unique_ptr<ObjectWriter> inner_;
};

StoreCounters CountingStore::counters() const {
  std::lock_guard lock(mutex_);
  return counters_;
}

void CountingStore::ResetCounters() {
  std::lock_guard lock(mutex_);
  counters_ = {};
}

void CountingStore::Add(Counter counter, uint64_t amount) {
  std::lock_guard lock(mutex_);
  counters_.*counter += amount;
}

std::string CountingStore::Describe(std::string_view key) const {
  return inner_->Describe(key);
}

Result<ObjectInfo> CountingStore::Stat(std::string_view key) {
  Add(&StoreCounters::stat_calls);
  return inner_->Stat(key);
}

Result<Bytes> CountingStore::Read(std::string_view key, ByteRange range) {
  Add(&StoreCounters::read_calls);
  HF_ASSIGN_OR_RETURN(Bytes value, inner_->Read(key, range));
  Add(&StoreCounters::read_bytes, value.size());
  return value;
}

Status CountingStore::ReadInto(std::string_view key, uint64_t offset,
                               std::span<char> target) {
  Add(&StoreCounters::read_calls);
  HF_RETURN_IF_ERROR(inner_->ReadInto(key, offset, target));
  Add(&StoreCounters::read_bytes, target.size());
  return {};
}

Status CountingStore::ReadBatch(std::span<const RangeRead> requests,
                                const CancelToken* cancel) {
  Add(&StoreCounters::read_calls, requests.size());
  HF_RETURN_IF_ERROR(inner_->ReadBatch(requests, cancel));
  for (const RangeRead& request : requests) {
    Add(&StoreCounters::read_bytes, request.target.size());
  }
  return {};
}

Result<ObjectLocation> CountingStore::Locate(std::string_view key) {
  HF_ASSIGN_OR_RETURN(ObjectLocation location, inner_->Locate(key));
  if (location.store == inner_) location.store = this;
  return location;
}

Status CountingStore::List(
    std::string_view prefix,
    const std::function<Status(std::string_view, const ObjectInfo&)>& fn) {
  Add(&StoreCounters::list_calls);
  return inner_->List(prefix, fn);
}

Status CountingStore::Write(std::string_view key,
                            std::span<const std::string_view> pieces,
                            const WriteOptions& options) {
  Add(&StoreCounters::write_calls);
  if (options.sync) Add(&StoreCounters::synced_writes);
  HF_RETURN_IF_ERROR(inner_->Write(key, pieces, options));
  Add(&StoreCounters::written_bytes, TotalBytes(pieces));
  return {};
}

Result<std::unique_ptr<ObjectWriter>> CountingStore::Create(
    std::string_view key) {
  Add(&StoreCounters::create_calls);
  HF_ASSIGN_OR_RETURN(std::unique_ptr<ObjectWriter> writer,
                      inner_->Create(key));
  return std::unique_ptr<ObjectWriter>(
      std::make_unique<Writer>(this, std::move(writer)));
}

Status CountingStore::Delete(std::string_view key) {
  Add(&StoreCounters::delete_calls);
  return inner_->Delete(key);
}

Status CountingStore::SyncNames() {
  Add(&StoreCounters::sync_names_calls);
  return inner_->SyncNames();
}

}  // namespace holdfast
