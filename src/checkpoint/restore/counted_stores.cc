#include "checkpoint/restore/counted_stores.h"

#include "base/status_macros.h"

namespace holdfast {

class CountedStores::Counted final : public CountingStore {
 public:
  Counted(Store* inner, const CountedStores& stores)
      : CountingStore(inner), stores_(stores) {}

  Result<ObjectLocation> Locate(std::string_view key) override {
    HF_ASSIGN_OR_RETURN(ObjectLocation location, CountingStore::Locate(key));
    const auto it = stores_.stores_.find(location.store);
    if (it != stores_.stores_.end()) location.store = it->second.get();
    return location;
  }

 private:
  const CountedStores& stores_;
};

Store* CountedStores::Add(Store* store) {
  std::unique_ptr<CountingStore>& counted = stores_[store];
  if (counted == nullptr) counted = std::make_unique<Counted>(store, *this);
  return counted.get();
}

Store& CountedStores::Of(Store& store) const {
  return *stores_.find(&store)->second;
}

uint64_t CountedStores::read_bytes() const {
  uint64_t sum = 0;
  for (const auto& [store, counted] : stores_) {
    sum += counted->counters().read_bytes;
  }
  return sum;
}

}  // namespace holdfast
