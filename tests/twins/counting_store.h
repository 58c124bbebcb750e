// CountingStore: wraps a Store and counts its calls and bytes, so that a test
// or a benchmark can report how much was read.
//
// Thread-safety: any thread. Each counter is exact; a snapshot taken during
// calls may mix moments.
// Ownership: borrows the wrapped store. Units: bytes.
// Errors: those of the wrapped store. Calls are counted when they start, bytes
// only when the call succeeds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "stores/storage/store.h"

namespace holdfast {

struct StoreCounters {
  uint64_t stat_calls = 0;
  uint64_t read_calls = 0;  // Read, ReadInto and each request of a ReadBatch
  uint64_t read_bytes = 0;
  uint64_t list_calls = 0;
  uint64_t write_calls = 0;  // Write and WriteAt
  uint64_t written_bytes = 0;
  uint64_t create_calls = 0;
  uint64_t finish_calls = 0;
  uint64_t delete_calls = 0;
  uint64_t sync_names_calls = 0;
  uint64_t synced_writes = 0;  // Write and Finish that asked for sync

  bool operator==(const StoreCounters&) const = default;
};

class CountingStore : public Store {
 public:
  using Store::Write;

  explicit CountingStore(Store* inner) : inner_(inner) {}

  StoreCounters counters() const;
  void ResetCounters();

  std::string Describe(std::string_view key) const override;
  int requests_in_flight() const override {
    return inner_->requests_in_flight();
  }
  Result<ObjectInfo> Stat(std::string_view key) override;
  Result<Bytes> Read(std::string_view key, ByteRange range = {}) override;
  Status ReadInto(std::string_view key, uint64_t offset,
                  std::span<char> target) override;
  Status ReadBatch(std::span<const RangeRead> requests,
                   const CancelToken* cancel = nullptr) override;
  // Returns a location in this store instead of the wrapped one, so that
  // planned reads are counted too.
  Result<ObjectLocation> Locate(std::string_view key) override;
  Status List(std::string_view prefix,
              const std::function<Status(std::string_view key,
                                         const ObjectInfo& info)>& fn) override;
  Status Write(std::string_view key, std::span<const std::string_view> pieces,
               const WriteOptions& options = {}) override;
  Result<std::unique_ptr<ObjectWriter>> Create(std::string_view key) override;
  Status Delete(std::string_view key) override;
  Status SyncNames() override;
  Status Flush() override { return inner_->Flush(); }
  int writers_in_flight() const override { return inner_->writers_in_flight(); }
  void BoundBuffers(uint64_t bytes_max) override {
    inner_->BoundBuffers(bytes_max);
  }

 private:
  class Writer;
  using Counter = uint64_t StoreCounters::*;

  void Add(Counter counter, uint64_t amount = 1);

  Store* const inner_;
  mutable std::mutex mutex_;
  StoreCounters counters_;
};

}  // namespace holdfast
