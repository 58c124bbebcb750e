// Bytes of a known length that are read in parts: memory, or a part of a file.
//
// Thread-safety: several threads may call Read concurrently. Ownership: a
// source borrows what it reads from. Units: bytes.
// Errors: OutOfRange past the end; those of the store.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/status.h"
#include "stores/storage/store.h"

namespace holdfast::pickle {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual uint64_t size() const = 0;
  virtual Status Read(uint64_t offset, std::span<char> target) const = 0;

  // Reads into a string. REQUIRES: the source is known to have these bytes, so
  // that a length that a file merely claims does not allocate memory.
  Result<std::string> ReadString(uint64_t offset, uint64_t byte_count) const;
};

class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  Status Read(uint64_t offset, std::span<char> target) const override;

 private:
  std::string_view bytes_;
};

// A range of an object. REQUIRES: the range is inside the object.
class StoreSource : public ByteSource {
 public:
  StoreSource(Store& store, std::string key, ByteRange range)
      : store_(store), key_(std::move(key)), range_(range) {}
  uint64_t size() const override { return range_.byte_count; }
  Status Read(uint64_t offset, std::span<char> target) const override;

 private:
  Store& store_;
  std::string key_;
  ByteRange range_;
};

}  // namespace holdfast::pickle
