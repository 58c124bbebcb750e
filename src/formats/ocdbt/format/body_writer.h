// BodyWriter: appends the fields of a body to memory that is allocated once, so
// that 100,000 records need neither reallocation nor a check per byte.
//
// Thread-safety: one thread. Ownership: owns the memory. Units: bytes.
// Errors: none. REQUIRES: never more bytes than reserved (asserted).
#pragma once

#include <cassert>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "ground/base/bytes.h"
#include "ground/base/coding.h"

namespace holdfast::ocdbt {

inline constexpr uint64_t kVarint16BytesMax = 3;
inline constexpr uint64_t kVarint32BytesMax = 5;
inline constexpr uint64_t kVarint64BytesMax = 10;

class BodyWriter {
 public:
  explicit BodyWriter(uint64_t bytes_max)
      : buffer_(bytes_max), next_(buffer_.data()) {}

  void PutByte(uint8_t value) {
    assert(Room() >= 1);
    *next_++ = static_cast<char>(value);
  }
  void PutU32(uint32_t value) { PutLittle(value); }
  void PutU64(uint64_t value) { PutLittle(value); }
  void PutVarint(uint64_t value) {
    assert(Room() >= kVarint64BytesMax || value < (uint64_t{1} << 7 * Room()));
    while (value >= 0x80) {
      *next_++ = static_cast<char>(value | 0x80);
      value >>= 7;
    }
    *next_++ = static_cast<char>(value);
  }
  void PutBytes(std::string_view bytes) {
    assert(Room() >= bytes.size());
    if (!bytes.empty()) std::memcpy(next_, bytes.data(), bytes.size());
    next_ += bytes.size();
  }

  std::string_view view() const {
    return {buffer_.data(), static_cast<size_t>(next_ - buffer_.data())};
  }

  // Returns the body; the writer is empty afterwards.
  Bytes Take() && {
    const size_t byte_count = view().size();
    return Bytes(std::move(buffer_), byte_count);
  }

 private:
  template <typename T>
  void PutLittle(T value) {
    assert(Room() >= sizeof value);
    StoreLittle(next_, value);
    next_ += sizeof value;
  }
  uint64_t Room() const {
    return static_cast<uint64_t>(buffer_.data() + buffer_.size() - next_);
  }

  Buffer buffer_;
  char* next_;
};

}  // namespace holdfast::ocdbt
