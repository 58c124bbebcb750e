// FaultStore: a Store in memory that fails and crashes on request, so that
// callers can be tested at every operation that may fail.
//
// In addition to what readers see, it records what a power loss may leave.
// Bytes written without `sync` may be lost in part. Names that neither
// SyncNames nor a synced atomic write covers may revert to an old state.
// Objects are independent: any mix of their old and new states can survive.
// Thread-safety: any thread; which operation is the k-th is determined only
// when one thread works. Ownership: owns its objects. Units: bytes; operations
// count from 1.
// Errors: as in store.h, and injected ones, whose messages contain "injected".
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "stores/storage/memory_store.h"
#include "stores/storage/store.h"

namespace holdfast {

struct FaultOptions {
  // Decides everything that is left to chance.
  uint64_t seed = 0;
  // This operation fails with `code`; 0 means none.
  uint64_t fail_at = 0;
  StatusCode code = StatusCode::kUnavailable;
  // All later operations fail too, as when the process has died.
  bool sticky = false;
  // A failing write is torn. A write in place may leave a part of its bytes
  // after a crash. An atomic write may have happened although it failed,
  // depending on the seed. Without this option, a failing operation has no
  // effect.
  bool torn_writes = false;
  // Flips one bit in the result of this read; 0 means none. Only Read and
  // ReadInto calls that succeed and are not empty count as reads.
  uint64_t flip_read_at = 0;
};

enum class CrashLoss : uint8_t {
  kBySeed,       // each unsynced object: lost, old, empty, torn or complete
  kAllUnsynced,  // only what was synced survives
  kNothing,      // everything survives, as when only the process dies
};

class FaultStore : public Store {
 public:
  using Store::Write;

  explicit FaultStore(FaultOptions options = {}, std::string name = "fault:");

  // Counts operations and reads from 1 again.
  void SetFaults(FaultOptions options);
  // Counts Stat, Read, ReadInto, List, Write, Create, WriteAt, Finish, Delete
  // and SyncNames, once each, even if they failed.
  uint64_t operation_count() const;
  // The operations so far, in order: "write a/b sync atomic", "finish a/b
  // sync", "sync_names", … Words: stat, read, list, create, write_at, delete;
  // flags of write: sync, atomic, must_create.
  std::vector<std::string> operations() const;

  // Simulates a power failure. All data that survive are then durable. Later
  // operations do not fail, except those of open writers (FailedPrecondition).
  void Crash(uint64_t seed, CrashLoss loss = CrashLoss::kBySeed);
  // Returns a store with what Crash would leave. This store does not change.
  std::unique_ptr<MemoryStore> AfterCrash(
      uint64_t seed, CrashLoss loss = CrashLoss::kBySeed) const;

  std::string Describe(std::string_view key) const override;
  Result<ObjectInfo> Stat(std::string_view key) override;
  Result<Bytes> Read(std::string_view key, ByteRange range = {}) override;
  Status ReadInto(std::string_view key, uint64_t offset,
                  std::span<char> target) override;
  Status List(std::string_view prefix,
              const std::function<Status(std::string_view key,
                                         const ObjectInfo& info)>& fn) override;
  Status Write(std::string_view key, std::span<const std::string_view> pieces,
               const WriteOptions& options = {}) override;
  Result<std::unique_ptr<ObjectWriter>> Create(std::string_view key) override;
  Status Delete(std::string_view key) override;
  Status SyncNames() override;

 private:
  class Writer;
  using Random = std::mt19937_64;

  // One possible state of a name after a crash.
  struct Version {
    std::optional<Bytes> value;  // empty: no object
    bool is_synced = true;       // whether the bytes (not the name) are synced
  };
  // front() is the durable state of the name; back() is what readers see.
  using History = std::vector<Version>;
  using Objects = std::map<std::string, History, std::less<>>;

  // Counts the operation; returns an error if it must fail.
  Status Begin(std::string operation);
  // Returns the value that readers see. REQUIRES: mutex_ held.
  const Bytes* FindLocked(std::string_view key) const;
  Result<Bytes> Find(std::string_view key) const;
  // Flips a bit in a copy if this read is the chosen one.
  Bytes MaybeFlip(Bytes value);
  void AddVersion(std::string_view key, Version version);
  void TearWrite(std::string_view key, const Bytes& value, bool atomic);
  bool Chance();
  std::map<std::string, Bytes> Survivors(uint64_t seed, CrashLoss loss) const;
  static std::optional<Bytes> Survivor(const History& history, Random& random,
                                       CrashLoss loss);
  static Bytes Damage(const Bytes& value, Random& random);

  const std::string name_;
  mutable std::mutex mutex_;
  FaultOptions options_;
  Random random_;
  uint64_t read_count_ = 0;
  std::vector<std::string> operations_;
  Objects objects_;
  std::atomic<uint64_t> crash_count_{0};
};

}  // namespace holdfast
