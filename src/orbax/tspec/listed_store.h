// ListedStore: a directory that a spec opens. Until something is written, its
// bytes are checked against the `_HOLDFAST_DIGESTS` next to them.
//
// A spec may point into a checkpoint: to an item's database, or to the
// directory of one of its parameters. The list of digests is looked up at the
// first read. A write makes the list invalid, so the list is removed before it,
// as any handler does that writes into a checkpoint. Later reads use the plain
// store.
//
// Thread-safety: any thread. Ownership: owns its stores. Units: bytes.
// Errors: those of the store and of engine/check/checked_store.h.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "holdfast/status.h"
#include "stores/storage/store.h"

namespace holdfast::spec {

class ListedStore final : public Store {
 public:
  using Store::Write;

  // `store` is the store of `directory`, a path or URL without a trailing '/'.
  ListedStore(std::shared_ptr<Store> store, std::string directory)
      : store_(std::move(store)), directory_(std::move(directory)) {}

  std::string Describe(std::string_view key) const override {
    return store_->Describe(key);
  }
  int requests_in_flight() const override {
    return store_->requests_in_flight();
  }
  int writers_in_flight() const override { return store_->writers_in_flight(); }
  void BoundBuffers(uint64_t bytes_max) override {
    store_->BoundBuffers(bytes_max);
  }
  Result<ObjectInfo> Stat(std::string_view key) override;
  Result<Bytes> Read(std::string_view key, ByteRange range = {}) override;
  Status ReadInto(std::string_view key, uint64_t offset,
                  std::span<char> target) override;
  Status ReadBatch(std::span<const RangeRead> requests,
                   const CancelToken* cancel = nullptr) override;
  Status List(
      std::string_view prefix,
      const std::function<Status(std::string_view key, const ObjectInfo& info)>&
          fn) override {
    return store_->List(prefix, fn);
  }
  Status Write(std::string_view key, std::span<const std::string_view> pieces,
               const WriteOptions& options) override;
  Result<std::unique_ptr<ObjectWriter>> Create(std::string_view key) override;
  Status Delete(std::string_view key) override;
  Status SyncNames() override { return store_->SyncNames(); }
  Status Flush() override { return store_->Flush(); }

 private:
  // Returns the store to read from. It is checked until something is written.
  Result<std::shared_ptr<Store>> Reader();
  // Removes the list. Must be called before anything is written.
  Status DropList();

  const std::shared_ptr<Store> store_;
  const std::string directory_;
  std::mutex mutex_;
  std::shared_ptr<Store> reader_;  // null until the list was looked up
  std::atomic<bool> is_written_{false};
};

}  // namespace holdfast::spec
