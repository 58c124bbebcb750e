// BrokenStore: a Store whose every call fails with the same Status.
//
// Thread-safety: any thread. Ownership: owns its message. Errors: the given
// Status.
#pragma once

#include <string>
#include <utility>

#include "stores/storage/store.h"

namespace holdfast {

class BrokenStore : public Store {
 public:
  using Store::Write;

  BrokenStore(std::string place, Status status)
      : place_(std::move(place)), status_(std::move(status)) {}

  std::string Describe(std::string_view key) const override {
    return place_ + "/" + std::string(key);
  }
  Result<ObjectInfo> Stat(std::string_view) override { return status_; }
  Result<Bytes> Read(std::string_view, ByteRange) override { return status_; }
  Status ReadInto(std::string_view, uint64_t, std::span<char>) override {
    return status_;
  }
  Status List(std::string_view,
              const std::function<Status(std::string_view key,
                                         const ObjectInfo& info)>&) override {
    return status_;
  }
  Status Write(std::string_view, std::span<const std::string_view>,
               const WriteOptions&) override {
    return status_;
  }
  Result<std::unique_ptr<ObjectWriter>> Create(std::string_view) override {
    return status_;
  }
  Status Delete(std::string_view) override { return status_; }
  Status SyncNames() override { return status_; }

 private:
  const std::string place_;
  const Status status_;
};

}  // namespace holdfast
