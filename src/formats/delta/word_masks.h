// Comparisons of 64 words at a time, with one bit for each word.
//
// Words are little-endian unsigned integers of 1, 2, 4 or 8 bytes. SSE2, which
// every x86-64 has, compares 16 bytes at a time; elsewhere, vectorization is
// left to the compiler.
// Thread-safety: pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace holdfast {

inline constexpr size_t kGroupWords = 64;
inline constexpr size_t kThresholdCountMax = 7;

// All bits except the highest: the magnitude of a float.
template <typename Word>
inline constexpr Word kMagnitudeMask = std::numeric_limits<Word>::max() >> 1;

#if defined(__SSE2__)
// Compares 16 bytes and reduces the result to one bit per word, for words of up
// to 4 bytes.
template <typename Word>
struct Lanes;

template <>
struct Lanes<uint8_t> {
  static __m128i All(uint8_t word) {
    return _mm_set1_epi8(static_cast<char>(word));
  }
  static __m128i Equal(__m128i a, __m128i b) { return _mm_cmpeq_epi8(a, b); }
  static __m128i Greater(__m128i a, __m128i b) { return _mm_cmpgt_epi8(a, b); }
  // Returns the bits of 16 words.
  static uint32_t Bits(const __m128i* masks) {
    return static_cast<uint32_t>(_mm_movemask_epi8(masks[0]));
  }
};

template <>
struct Lanes<uint16_t> {
  static __m128i All(uint16_t word) {
    return _mm_set1_epi16(static_cast<int16_t>(word));
  }
  static __m128i Equal(__m128i a, __m128i b) { return _mm_cmpeq_epi16(a, b); }
  static __m128i Greater(__m128i a, __m128i b) { return _mm_cmpgt_epi16(a, b); }
  static uint32_t Bits(const __m128i* masks) {
    return static_cast<uint32_t>(
        _mm_movemask_epi8(_mm_packs_epi16(masks[0], masks[1])));
  }
};

template <>
struct Lanes<uint32_t> {
  static __m128i All(uint32_t word) {
    return _mm_set1_epi32(static_cast<int32_t>(word));
  }
  static __m128i Equal(__m128i a, __m128i b) { return _mm_cmpeq_epi32(a, b); }
  static __m128i Greater(__m128i a, __m128i b) { return _mm_cmpgt_epi32(a, b); }
  static uint32_t Bits(const __m128i* masks) {
    return static_cast<uint32_t>(_mm_movemask_epi8(
        _mm_packs_epi16(_mm_packs_epi32(masks[0], masks[1]),
                        _mm_packs_epi32(masks[2], masks[3]))));
  }
};
#endif

// Returns one bit for each of 64 words: whether `compare` of the word's vector
// gives all ones for the word. 16 words fill sizeof(Word) vectors.
template <typename Word, typename Compare>
[[gnu::always_inline]] inline uint64_t BitsOfGroup(Compare compare) {
  uint64_t bits = 0;
#if defined(__SSE2__)
  constexpr int kVectors = sizeof(Word);  // that hold 16 words
#pragma GCC unroll 4
  for (int part = 0; part < 4; ++part) {
    __m128i masks[kVectors];
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i) masks[i] = compare(part * kVectors + i);
    bits |= uint64_t{Lanes<Word>::Bits(masks)} << 16 * part;
  }
#endif
  return bits;
}

// Returns one bit for each of 64 words: whether the word differs.
template <typename Word>
[[gnu::always_inline]] inline uint64_t DifferentWords(const Word* a,
                                                      const Word* b) {
#if defined(__SSE2__)
  if constexpr (sizeof(Word) <= 4) {
    const auto* const va = reinterpret_cast<const __m128i*>(a);
    const auto* const vb = reinterpret_cast<const __m128i*>(b);
    return ~BitsOfGroup<Word>([&](int i) {
      return Lanes<Word>::Equal(_mm_loadu_si128(va + i),
                                _mm_loadu_si128(vb + i));
    });
  }
#endif
  uint64_t bits = 0;
  for (size_t i = 0; i < kGroupWords; ++i) {
    bits |= uint64_t{a[i] != b[i]} << i;
  }
  return bits;
}

// Sets bits[k] to one bit for each of 64 words: whether the word's magnitude is
// at least thresholds[k]. REQUIRES: no threshold is 0.
template <typename Word>
[[gnu::always_inline]] inline void LargeWords(const Word* words,
                                              std::span<const Word> thresholds,
                                              uint64_t* bits) {
#if defined(__SSE2__)
  if constexpr (sizeof(Word) <= 4) {
    constexpr size_t kVectors = kGroupWords * sizeof(Word) / sizeof(__m128i);
    const auto* const from = reinterpret_cast<const __m128i*>(words);
    const __m128i mask = Lanes<Word>::All(kMagnitudeMask<Word>);
    __m128i magnitudes[kVectors];
    for (size_t i = 0; i < kVectors; ++i) {
      magnitudes[i] = _mm_and_si128(_mm_loadu_si128(from + i), mask);
    }
    for (size_t k = 0; k < thresholds.size(); ++k) {
      const __m128i below =
          Lanes<Word>::All(static_cast<Word>(thresholds[k] - 1));
      bits[k] = BitsOfGroup<Word>(
          [&](int i) { return Lanes<Word>::Greater(magnitudes[i], below); });
    }
    return;
  }
#endif
  for (size_t k = 0; k < thresholds.size(); ++k) {
    bits[k] = 0;
    for (size_t i = 0; i < kGroupWords; ++i) {
      const auto magnitude = static_cast<Word>(words[i] & kMagnitudeMask<Word>);
      bits[k] |= uint64_t{magnitude >= thresholds[k]} << i;
    }
  }
}

}  // namespace holdfast
