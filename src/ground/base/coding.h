// Little-endian integers, varints (LEB128, low group first) and hex text. They
// are written to a std::string. Cursor reads the integers and varints, and
// checks every bound.
// Thread-safety: one thread per cursor.
// Errors: a Cursor never reads past its end; a failed read returns false and
// leaves the cursor where it was.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace holdfast {

static_assert(std::endian::native == std::endian::little,
              "holdfast is written for little-endian machines");

template <typename T>
T LoadLittle(const char* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

template <typename T>
void StoreLittle(char* p, T value) {
  std::memcpy(p, &value, sizeof value);
}

void PutU32Little(std::string& out, uint32_t value);
void PutU64Little(std::string& out, uint64_t value);
// Writes the shortest form; at most 10 bytes.
void PutVarint(std::string& out, uint64_t value);

// Returns two lower-case hex digits per byte.
std::string ToHex(std::string_view bytes);

class Cursor {
 public:
  explicit Cursor(std::string_view data) : data_(data) {}

  size_t offset() const { return offset_; }
  size_t remaining() const { return data_.size() - offset_; }

  bool ReadByte(uint8_t& value);
  bool ReadU32Little(uint32_t& value);
  bool ReadU64Little(uint64_t& value);
  bool ReadBytes(size_t byte_count, std::string_view& value);

  enum class VarintResult { kOk, kTruncated, kTooLarge };
  // `value_max` bounds the value; width limits (5 bytes for 32 bits, 10 for
  // 64) follow from it. Overlong forms within the width are accepted.
  VarintResult ReadVarint(uint64_t value_max, uint64_t& value);

 private:
  std::string_view data_;
  size_t offset_ = 0;
};

}  // namespace holdfast
