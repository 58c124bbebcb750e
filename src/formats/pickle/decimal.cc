#include "formats/pickle/decimal.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <vector>

namespace holdfast::pickle {
namespace {

constexpr uint64_t kBillion = 1000000000;

// Magnitudes are stored as 32-bit words, little endian.
std::vector<uint32_t> WordsOf(std::string_view bytes) {
  std::vector<uint32_t> words((bytes.size() + 3) / 4, 0);
  for (size_t i = 0; i < bytes.size(); ++i) {
    words[i / 4] |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[i]))
                    << (8 * (i % 4));
  }
  return words;
}

void Negate(std::string& bytes) {
  unsigned carry = 1;
  for (char& byte : bytes) {
    const unsigned sum = static_cast<unsigned char>(~byte) + carry;
    byte = static_cast<char>(sum);
    carry = sum >> 8;
  }
}

// Divides in place and returns the remainder.
uint32_t DivideByBillion(std::vector<uint32_t>& words) {
  uint64_t rest = 0;
  for (size_t i = words.size(); i-- > 0;) {
    const uint64_t value = rest << 32 | words[i];
    words[i] = static_cast<uint32_t>(value / kBillion);
    rest = value % kBillion;
  }
  while (!words.empty() && words.back() == 0) words.pop_back();
  return static_cast<uint32_t>(rest);
}

void MultiplyAdd(std::vector<uint32_t>& words, uint64_t factor,
                 uint64_t carry) {
  for (uint32_t& word : words) {
    carry += word * factor;
    word = static_cast<uint32_t>(carry);
    carry >>= 32;
  }
  if (carry != 0) words.push_back(static_cast<uint32_t>(carry));
}

}  // namespace

std::string DecimalOfBytes(std::string_view two_complement) {
  std::string bytes(two_complement);
  const bool is_negative = !bytes.empty() && (bytes.back() & 0x80) != 0;
  if (is_negative) {
    bytes += '\xff';  // room for the magnitude of the smallest number
    Negate(bytes);
  }
  std::vector<uint32_t> words = WordsOf(bytes);
  while (!words.empty() && words.back() == 0) words.pop_back();
  if (words.empty()) return "0";
  std::string digits;  // in reverse order
  while (!words.empty()) {
    uint32_t part = DivideByBillion(words);
    for (int i = 0; i < 9; ++i, part /= 10) {
      digits += static_cast<char>('0' + part % 10);
    }
  }
  while (digits.back() == '0') digits.pop_back();
  if (is_negative) digits += '-';
  std::ranges::reverse(digits);
  return digits;
}

std::optional<std::string> BytesOfDecimal(std::string_view decimal) {
  const bool is_negative = decimal.starts_with('-');
  if (is_negative || decimal.starts_with('+')) decimal.remove_prefix(1);
  if (decimal.empty() || decimal.size() > kDigitsMax ||
      !std::ranges::all_of(decimal,
                           [](char c) { return c >= '0' && c <= '9'; })) {
    return std::nullopt;
  }
  std::vector<uint32_t> words;
  while (!decimal.empty()) {
    const std::string_view part = decimal.substr(0, 9);
    uint64_t factor = 1;
    uint64_t value = 0;
    for (const char c : part) {
      factor *= 10;
      value = value * 10 + static_cast<uint64_t>(c - '0');
    }
    MultiplyAdd(words, factor, value);
    decimal.remove_prefix(part.size());
  }
  std::string bytes;
  for (const uint32_t word : words) {
    for (int i = 0; i < 4; ++i) bytes += static_cast<char>(word >> (8 * i));
  }
  bytes += '\0';  // the sign
  if (is_negative) Negate(bytes);
  return bytes;
}

std::string PythonFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 40> buffer;
  const auto shortest =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                    std::chars_format::scientific);
  const std::string_view text(buffer.data(), shortest.ptr - buffer.data());
  const size_t e = text.find('e');
  int exponent = 0;
  const size_t digits_at = text[e + 1] == '+' ? e + 2 : e + 1;
  std::from_chars(text.data() + digits_at, text.data() + text.size(), exponent);
  if (exponent < -4 || exponent >= 16) {
    const std::string tens = std::to_string(std::abs(exponent));
    return std::string(text.substr(0, e)) + (exponent < 0 ? "e-" : "e+") +
           (tens.size() < 2 ? "0" : "") + tens;
  }
  // No number here has more than 17 digits, which fixed notation shows
  // completely.
  const auto fixed = std::to_chars(buffer.data(), buffer.data() + buffer.size(),
                                   value, std::chars_format::fixed);
  std::string result(buffer.data(), fixed.ptr);
  if (result.find('.') == std::string::npos) result += ".0";
  return result;
}

}  // namespace holdfast::pickle
