// MemoryStore: a Store in this process's memory. Tests use it instead of a
// disk, and other code uses it for small amounts of data.
//
// Reads copy nothing: they share the object's immutable bytes, which stay valid
// when the object is replaced or deleted.
// Thread-safety: any thread. Ownership: owns its objects. Units: bytes.
// Errors: as in store.h; ResourceExhausted if memory is short.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "stores/storage/store.h"

namespace holdfast {

class MemoryStore : public Store {
 public:
  using Store::Write;

  // `name` appears in messages: "<name>/<key>".
  explicit MemoryStore(std::string name = "memory:");

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

  // Puts `value` under `key` without a copy. REQUIRES: CheckKey(key).ok().
  void Put(std::string_view key, Bytes value);

 private:
  class Writer;

  Result<Bytes> Find(std::string_view key) const;

  const std::string name_;
  mutable std::mutex mutex_;
  std::map<std::string, Bytes, std::less<>> objects_;
};

}  // namespace holdfast
