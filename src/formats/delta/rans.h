// Asymmetric numeral systems over bytes, with frequencies in 4096ths: a symbol
// of probability p costs log2(1/p) bits, including fractions of bits.
//
// Four states take turns, so that four symbols are coded in parallel. A state
// has 32 bits, is at least 2^16, and passes 16 bits at a time to the stream.
// Source: J. Duda, Asymmetric numeral systems, arXiv:1311.2540 (the "rANS" of
// section 3), and F. Giesen, Interleaved entropy coders, arXiv:1402.3392.
// Thread-safety: one thread per object. Ownership: inputs are borrowed.
// Errors: a reader returns false for bytes that an encoder would not have
// written; it never reads or writes out of bounds.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/codec/huffman.h"
#include "formats/delta/bit_stream.h"
#include "formats/delta/buckets.h"

namespace holdfast {

inline constexpr int kRansBits = 12;
inline constexpr uint32_t kRansTotal = 1U << kRansBits;
inline constexpr int kRansStateCount = 4;

// Frequencies add up to kRansTotal. A symbol that does not occur has 0.
using Frequencies = std::array<uint16_t, kSymbolCount>;

// REQUIRES: at least one count is not 0.
Frequencies FrequenciesOf(const ByteCounts& counts);
void WriteFrequencies(const Frequencies& frequencies, BitWriter& out);
bool ReadFrequencies(BitReader& in, Frequencies& frequencies);

// Encodes runs of symbols, each with its own frequencies, into one stream.
class RansEncoder {
 public:
  // Add the runs in reverse: the decoder gets the last run first. REQUIRES: no
  // symbol has frequency 0.
  void EncodeRun(std::string_view symbols, const Frequencies& frequencies);
  std::string Finish();

 private:
  std::array<uint32_t, kRansStateCount> states_ = {1 << 16, 1 << 16, 1 << 16,
                                                   1 << 16};
  std::vector<uint16_t> words_;  // the last one first
  size_t word_count_ = 0;        // of words_, which has room for more
};

class RansDecoder {
 public:
  bool Open(std::string_view stream);
  bool DecodeRun(const Frequencies& frequencies, std::span<uint8_t> symbols);
  // Returns whether everything that was encoded has been decoded.
  bool IsAtEnd() const;

 private:
  void MakeTable(const Frequencies& frequencies);
  template <bool kIsSafe>
  bool Step(uint32_t& state, uint8_t& symbol);

  // The symbol in the lowest 8 bits, then 12 bits of frequency - 1, then 12
  // bits of the slot's offset within the symbol's range.
  std::array<uint32_t, kRansTotal> table_;
  std::array<uint32_t, kRansStateCount> states_{};
  const char* at_ = nullptr;
  const char* end_ = nullptr;
};

}  // namespace holdfast
