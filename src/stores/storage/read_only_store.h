// ReadOnlyStore: a base class for stores that show other stores' objects. It
// refuses every write.
//
// Thread-safety, ownership, units: as Store.
// Errors: Unimplemented from every method that would write, or what Refusal
// returns.
#pragma once

#include "stores/storage/store.h"

namespace holdfast {

class ReadOnlyStore : public Store {
 public:
  using Store::Write;

  Status Write(std::string_view key, std::span<const std::string_view>,
               const WriteOptions&) override {
    return Refusal(key);
  }
  Result<std::unique_ptr<ObjectWriter>> Create(std::string_view key) override {
    return Refusal(key);
  }
  Status Delete(std::string_view key) override { return Refusal(key); }
  Status SyncNames() override { return Status(); }

 protected:
  virtual Status Refusal(std::string_view key) const {
    return UnimplementedError("write " + Describe(key) +
                              ": this store is read-only");
  }
};

}  // namespace holdfast
