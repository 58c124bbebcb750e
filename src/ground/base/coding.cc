#include "ground/base/coding.h"

namespace holdfast {

void PutU32Little(std::string& out, uint32_t value) {
  char bytes[sizeof value];
  StoreLittle(bytes, value);
  out.append(bytes, sizeof value);
}

void PutU64Little(std::string& out, uint64_t value) {
  char bytes[sizeof value];
  StoreLittle(bytes, value);
  out.append(bytes, sizeof value);
}

void PutVarint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

std::string ToHex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes) {
    text.push_back(kDigits[static_cast<uint8_t>(byte) >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

bool Cursor::ReadByte(uint8_t& value) {
  if (remaining() < 1) return false;
  value = static_cast<uint8_t>(data_[offset_++]);
  return true;
}

bool Cursor::ReadU32Little(uint32_t& value) {
  if (remaining() < sizeof value) return false;
  value = LoadLittle<uint32_t>(data_.data() + offset_);
  offset_ += sizeof value;
  return true;
}

bool Cursor::ReadU64Little(uint64_t& value) {
  if (remaining() < sizeof value) return false;
  value = LoadLittle<uint64_t>(data_.data() + offset_);
  offset_ += sizeof value;
  return true;
}

bool Cursor::ReadBytes(size_t byte_count, std::string_view& value) {
  if (remaining() < byte_count) return false;
  value = data_.substr(offset_, byte_count);
  offset_ += byte_count;
  return true;
}

Cursor::VarintResult Cursor::ReadVarint(uint64_t value_max, uint64_t& value) {
  const int bits = value_max > UINT32_MAX ? 64 : 32;
  const int byte_count_max = (bits + 6) / 7;
  uint64_t result = 0;
  for (int i = 0; i < byte_count_max; ++i) {
    if (offset_ + i >= data_.size()) return VarintResult::kTruncated;
    const uint8_t byte = static_cast<uint8_t>(data_[offset_ + i]);
    const int shift = 7 * i;
    const int bits_left = bits - shift;
    const uint8_t payload = byte & 0x7f;
    // The last byte has room for few bits: the 10th of a 64-bit varint may only
    // hold bit 63.
    if (bits_left < 7 && (payload >> bits_left) != 0) {
      return VarintResult::kTooLarge;
    }
    result |= uint64_t{payload} << shift;
    if ((byte & 0x80) == 0) {
      if (result > value_max) return VarintResult::kTooLarge;
      offset_ += i + 1;
      value = result;
      return VarintResult::kOk;
    }
  }
  return VarintResult::kTooLarge;
}

}  // namespace holdfast
