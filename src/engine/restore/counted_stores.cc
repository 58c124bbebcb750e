#include "engine/restore/counted_stores.h"

#include <atomic>

#include "ground/base/status_macros.h"
#include "stores/storage/read_only_store.h"

namespace holdfast {

// Bytes are counted after they have been read.
class CountedStores::Counted final : public ReadOnlyStore {
 public:
  Counted(Store* inner, const CountedStores& stores)
      : inner_(inner), stores_(stores) {}

  uint64_t read_bytes() const { return read_bytes_; }

  std::string Describe(std::string_view key) const override {
    return inner_->Describe(key);
  }
  int requests_in_flight() const override {
    return inner_->requests_in_flight();
  }
  Result<ObjectInfo> Stat(std::string_view key) override {
    return inner_->Stat(key);
  }
  Result<Bytes> Read(std::string_view key, ByteRange range) override {
    Result<Bytes> bytes = inner_->Read(key, range);
    if (bytes.ok()) read_bytes_ += bytes->size();
    return bytes;
  }
  Status ReadInto(std::string_view key, uint64_t offset,
                  std::span<char> target) override {
    HF_RETURN_IF_ERROR(inner_->ReadInto(key, offset, target));
    read_bytes_ += target.size();
    return Status();
  }
  Status ReadBatch(std::span<const RangeRead> requests,
                   const CancelToken* cancel) override {
    HF_RETURN_IF_ERROR(inner_->ReadBatch(requests, cancel));
    for (const RangeRead& request : requests) {
      read_bytes_ += request.target.size();
    }
    return Status();
  }
  // Objects stored in another store (a database's values in its data files) are
  // located in that store's counting wrapper.
  Result<ObjectLocation> Locate(std::string_view key) override {
    HF_ASSIGN_OR_RETURN(ObjectLocation location, inner_->Locate(key));
    const auto it = stores_.stores_.find(location.store);
    if (it != stores_.stores_.end()) location.store = it->second.get();
    return location;
  }
  Status List(
      std::string_view prefix,
      const std::function<Status(std::string_view key, const ObjectInfo& info)>&
          fn) override {
    return inner_->List(prefix, fn);
  }

 private:
  Store* const inner_;
  const CountedStores& stores_;
  std::atomic<uint64_t> read_bytes_{0};
};

CountedStores::CountedStores() = default;
CountedStores::~CountedStores() = default;

Store* CountedStores::Add(Store* store) {
  std::unique_ptr<Counted>& counted = stores_[store];
  if (counted == nullptr) counted = std::make_unique<Counted>(store, *this);
  return counted.get();
}

Store& CountedStores::Of(Store& store) const {
  return *stores_.find(&store)->second;
}

uint64_t CountedStores::read_bytes() const {
  uint64_t sum = 0;
  for (const auto& [store, counted] : stores_) sum += counted->read_bytes();
  return sum;
}

}  // namespace holdfast
