// Elements as words (little-endian unsigned integers of 1, 2, 4 or 8 bytes) and
// the differences between words.
//
// A difference is new - old in wrapping arithmetic. For floats of the same
// sign, it counts representable numbers. It is zigzag coded: 0, -1, 1, -2, ...
// become 0, 1, 2, 3.
// Thread-safety: pure functions.
#pragma once

#include <cstdint>

namespace holdfast {

struct WordKind {
  int word_bytes = 1;
  // For a float (sign bit, exponent, mantissa), the number of bits below the
  // exponent. -1 for any other kind of number.
  int mantissa_bits = -1;

  bool operator==(const WordKind&) const = default;
};

// Calls call(Word()) with the unsigned integer type of `word_bytes` bytes.
template <typename Call>
auto WithWord(int word_bytes, Call call) {
  switch (word_bytes) {
    case 1:
      return call(uint8_t{});
    case 2:
      return call(uint16_t{});
    case 4:
      return call(uint32_t{});
    default:
      return call(uint64_t{});
  }
}

template <typename Word>
Word DifferenceOf(Word from, Word to) {
  const auto difference = static_cast<Word>(to - from);
  const auto sign =
      static_cast<Word>(0 - (difference >> (8 * sizeof(Word) - 1)));
  return static_cast<Word>(static_cast<Word>(difference << 1) ^ sign);
}

template <typename Word>
Word WithDifference(Word from, Word difference) {
  const auto sign = static_cast<Word>(0 - (difference & 1));
  return static_cast<Word>(from + static_cast<Word>(difference >> 1 ^ sign));
}

}  // namespace holdfast
