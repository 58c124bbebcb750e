#include "formats/delta/rans.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "ground/base/coding.h"

namespace holdfast {
namespace {

constexpr uint32_t kStateMin = 1U << 16;
__extension__ using Product = unsigned __int128;
constexpr int kLengthBits = 4;  // of a frequency's bit width: 0 to 13

// Multiplication instead of division, by the method of T. Granlund and P.
// Montgomery, "Division by invariant integers using multiplication". It is
// exact for all states, which have fewer than 32 bits.
struct EncodeSymbol {
  uint64_t state_max = 0;  // a state of at least this passes a word first
  uint64_t reciprocal = 0;
  int shift = 0;
  uint32_t frequency = 0;
  uint32_t start = 0;
};

EncodeSymbol EncodeSymbolOf(uint32_t frequency, uint32_t start) {
  EncodeSymbol symbol;
  symbol.state_max = uint64_t{frequency} << (32 - kRansBits);
  symbol.shift = 32 + std::bit_width(frequency - 1);
  symbol.reciprocal =
      ((uint64_t{1} << symbol.shift) + frequency - 1) / frequency;
  symbol.frequency = frequency;
  symbol.start = start;
  return symbol;
}

// Corrects the sum after rounding by changing the largest frequency.
void MakeSumExact(Frequencies& frequencies, int64_t excess) {
  while (excess != 0) {
    const auto largest = std::ranges::max_element(frequencies);
    if (excess < 0) {
      *largest = static_cast<uint16_t>(*largest - excess);
      return;
    }
    const int64_t taken = std::min<int64_t>(excess, *largest / 2);
    *largest = static_cast<uint16_t>(*largest - taken);
    excess -= taken;
  }
}

}  // namespace

Frequencies FrequenciesOf(const ByteCounts& counts) {
  uint64_t total = 0;
  for (const uint32_t count : counts) total += count;
  assert(total > 0);
  Frequencies frequencies{};
  int64_t excess = -int64_t{kRansTotal};
  for (int i = 0; i < kSymbolCount; ++i) {
    if (counts[i] == 0) continue;
    const uint64_t share =
        (counts[i] * uint64_t{kRansTotal} + total / 2) / total;
    frequencies[i] = static_cast<uint16_t>(std::max<uint64_t>(1, share));
    excess += frequencies[i];
  }
  MakeSumExact(frequencies, excess);
  return frequencies;
}

void WriteFrequencies(const Frequencies& frequencies, BitWriter& out) {
  int count = kSymbolCount;
  while (count > 0 && frequencies[count - 1] == 0) --count;
  out.Put(static_cast<uint64_t>(count - 1), 8);
  for (int i = 0; i < count; ++i) {
    const int width = std::bit_width(frequencies[i]);
    out.Put(static_cast<uint64_t>(width), kLengthBits);
    // The highest bit is always 1 and need not be stored.
    if (width > 1)
      out.Put(frequencies[i] & ((1U << (width - 1)) - 1), width - 1);
  }
}

bool ReadFrequencies(BitReader& in, Frequencies& frequencies) {
  frequencies.fill(0);
  const int count = static_cast<int>(in.Take(8)) + 1;
  uint32_t sum = 0;
  for (int i = 0; i < count; ++i) {
    const int width = static_cast<int>(in.Take(kLengthBits));
    if (width > kRansBits + 1) return false;
    if (width == 0) continue;
    const uint64_t below = width > 1 ? in.Take(width - 1) : 0;
    frequencies[i] = static_cast<uint16_t>(1U << (width - 1) | below);
    sum += frequencies[i];
  }
  return sum == kRansTotal && !in.is_past_end();
}

void RansEncoder::EncodeRun(std::string_view symbols,
                            const Frequencies& frequencies) {
  std::array<EncodeSymbol, kSymbolCount> table;
  uint32_t start = 0;
  for (int i = 0; i < kSymbolCount; ++i) {
    if (frequencies[i] == 0) continue;
    table[i] = EncodeSymbolOf(frequencies[i], start);
    start += frequencies[i];
  }
  // A symbol passes at most one word. The loop always writes the word, but
  // keeps it only if it is due.
  words_.resize(word_count_ + symbols.size() + 1);
  uint16_t* next = words_.data() + word_count_;
  std::array<uint32_t, kRansStateCount> states = states_;
  for (size_t i = symbols.size(); i-- > 0;) {
    const EncodeSymbol& symbol = table[static_cast<uint8_t>(symbols[i])];
    uint32_t state = states[i % kRansStateCount];
    const bool is_due = state >= symbol.state_max;
    *next = static_cast<uint16_t>(state);
    next += is_due ? 1 : 0;
    state = is_due ? state >> 16 : state;
    const auto quotient = static_cast<uint32_t>(
        static_cast<Product>(state) * symbol.reciprocal >> symbol.shift);
    states[i % kRansStateCount] =
        state + quotient * (kRansTotal - symbol.frequency) + symbol.start;
  }
  states_ = states;
  word_count_ = static_cast<size_t>(next - words_.data());
}

std::string RansEncoder::Finish() {
  std::string out;
  for (const uint32_t state : states_) PutU32Little(out, state);
  std::reverse(words_.begin(), words_.begin() + word_count_);
  out.append(reinterpret_cast<const char*>(words_.data()),
             sizeof(uint16_t) * word_count_);
  return out;
}

bool RansDecoder::Open(std::string_view stream) {
  if (stream.size() < sizeof states_ || stream.size() % 2 != 0) return false;
  for (int i = 0; i < kRansStateCount; ++i) {
    states_[i] = LoadLittle<uint32_t>(stream.data() + 4 * i);
    if (states_[i] < kStateMin) return false;
  }
  at_ = stream.data() + sizeof states_;
  end_ = stream.data() + stream.size();
  return true;
}

void RansDecoder::MakeTable(const Frequencies& frequencies) {
  uint32_t slot = 0;
  for (uint32_t i = 0; i < kSymbolCount; ++i) {
    const uint32_t frequency = frequencies[i];
    for (uint32_t place = 0; place < frequency; ++place) {
      table_[slot++] = i | (frequency - 1) << 8 | place << 20;
    }
  }
}

template <bool kIsSafe>
bool RansDecoder::Step(uint32_t& state, uint8_t& symbol) {
  const uint32_t entry = table_[state & (kRansTotal - 1)];
  symbol = static_cast<uint8_t>(entry);
  const uint32_t frequency = (entry >> 8 & (kRansTotal - 1)) + 1;
  state = frequency * (state >> kRansBits) + (entry >> 20);
  if constexpr (kIsSafe) {
    // Written without a branch, since it is random whether a word is due.
    const bool is_due = state < kStateMin;
    const uint32_t next = state << 16 | LoadLittle<uint16_t>(at_);
    state = is_due ? next : state;
    at_ += is_due ? sizeof(uint16_t) : 0;
    return true;
  }
  if (state >= kStateMin) return true;
  if (at_ == end_) return false;
  state = state << 16 | LoadLittle<uint16_t>(at_);
  at_ += sizeof(uint16_t);
  return true;
}

bool RansDecoder::DecodeRun(const Frequencies& frequencies,
                            std::span<uint8_t> symbols) {
  MakeTable(frequencies);
  size_t i = 0;
  std::array<uint32_t, kRansStateCount> states = states_;
  constexpr size_t kRoundBytes = kRansStateCount * sizeof(uint16_t);
  while (i + kRansStateCount <= symbols.size() &&
         static_cast<size_t>(end_ - at_) >= kRoundBytes) {
    for (int lane = 0; lane < kRansStateCount; ++lane) {
      Step<true>(states[lane], symbols[i + lane]);
    }
    i += kRansStateCount;
  }
  for (; i < symbols.size(); ++i) {
    if (!Step<false>(states[i % kRansStateCount], symbols[i])) return false;
  }
  states_ = states;
  return true;
}

bool RansDecoder::IsAtEnd() const {
  return at_ == end_ && std::ranges::all_of(states_, [](uint32_t state) {
           return state == kStateMin;
         });
}

}  // namespace holdfast
