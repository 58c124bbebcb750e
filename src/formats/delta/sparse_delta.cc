#include "formats/delta/sparse_delta.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "formats/delta/bit_stream.h"
#include "formats/delta/buckets.h"
#include "formats/delta/rans.h"
#include "formats/delta/word_classes.h"
#include "formats/delta/word_masks.h"
#include "ground/base/bytes.h"
#include "ground/base/coding.h"
#include "ground/base/cpu.h"

#if defined(__x86_64__)
#define HF_TARGET_BITS __attribute__((target("bmi,bmi2,popcnt")))
#else
#define HF_TARGET_BITS
#endif

namespace holdfast {
namespace {

// If there are many words, exponents are counted only in every
// kSampledGroups-th group. The choice of classes depends on this, but
// correctness does not.
constexpr size_t kSampledGroups = 32;
constexpr size_t kSampledFromWords = size_t{1} << 18;

// Returns the changed word. `coded` is the difference, which is never 0, minus
// 1.
template <typename Word>
Word Changed(Word from, Word coded) {
  return WithDifference(from, static_cast<Word>(coded + 1));
}

// These find the position of the set bit that has `rank` set bits below it, by
// S. Vigna's "Broadword implementation of rank/select queries", section 5.
// REQUIRES: there is such a bit.
constexpr std::array<std::array<uint8_t, 8>, 256> MakeSelectInByte() {
  std::array<std::array<uint8_t, 8>, 256> table{};
  for (int byte = 0; byte < 256; ++byte) {
    int rank = 0;
    for (uint8_t i = 0; i < 8; ++i) {
      if ((byte >> i & 1) != 0) table[byte][rank++] = i;
    }
  }
  return table;
}
constexpr auto kSelectInByte = MakeSelectInByte();

[[gnu::always_inline]] inline int SelectBit(uint64_t bits, uint64_t rank) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  constexpr uint64_t kHighs = 0x8080808080808080;
  uint64_t sums = bits - (bits >> 1 & 0x5555555555555555);
  sums = (sums & 0x3333333333333333) + (sums >> 2 & 0x3333333333333333);
  sums = ((sums + (sums >> 4)) & 0x0f0f0f0f0f0f0f0f) * kOnes;
  const uint64_t passed = (((rank * kOnes) | kHighs) - sums) & kHighs;
  const int place = static_cast<int>((passed >> 7) * kOnes >> 56) * 8;
  const uint64_t below = sums << 8 >> place & 0xff;
  return place + kSelectInByte[bits >> place & 0xff][(rank - below) & 7];
}

// Words in groups of 64; the last group is padded with zeros.
template <typename Word>
class Groups {
 public:
  Groups(const Word* words, size_t word_count)
      : words_(words), word_count_(word_count) {
    const size_t whole = word_count / kGroupWords * kGroupWords;
    last_.fill(0);
    // An empty view may have no memory at all.
    if (whole < word_count) {
      std::memcpy(last_.data(), words + whole,
                  (word_count - whole) * sizeof(Word));
    }
  }

  size_t count() const { return (word_count_ + kGroupWords - 1) / kGroupWords; }
  const Word* At(size_t group) const {
    return IsWhole(group) ? words_ + group * kGroupWords : last_.data();
  }
  // Returns one bit for each word in the group.
  uint64_t ValidAt(size_t group) const {
    return IsWhole(group) ? ~uint64_t{0}
                          : (uint64_t{1} << (word_count_ % kGroupWords)) - 1;
  }

 private:
  bool IsWhole(size_t group) const {
    return (group + 1) * kGroupWords <= word_count_;
  }

  const Word* words_;
  size_t word_count_;
  std::array<Word, kGroupWords> last_;
};

// The classes of words, defined by the exponents at which they begin.
template <typename Word>
class Classes {
 public:
  Classes(const WordKind& kind, std::span<const uint32_t> exponents)
      : count_(exponents.size() + 1),
        shift_(kind.mantissa_bits < 0 ? kWordBits - 1 : kind.mantissa_bits) {
    for (size_t k = 0; k < exponents.size(); ++k) {
      thresholds_[k] = static_cast<Word>(Word(exponents[k]) << shift_);
      for (size_t i = exponents[k]; i < class_of_.size(); ++i) {
        class_of_[i] = static_cast<uint8_t>(k + 1);
      }
    }
  }

  size_t count() const { return count_; }
  [[gnu::always_inline]] size_t Of(Word word) const {
    return class_of_[static_cast<uint8_t>(
        static_cast<Word>(word & kMagnitudeMask<Word>) >> shift_)];
  }
  // Sets bits[k] to one bit for each of 64 words: whether the word is in class
  // k.
  [[gnu::always_inline]] void Divide(const Word* words, uint64_t valid,
                                     uint64_t* bits) const {
    uint64_t large[kThresholdCountMax];
    LargeWords(words, std::span(thresholds_.data(), count_ - 1), large);
    uint64_t above = valid;
    for (size_t k = 0; k + 1 < count_; ++k) {
      bits[k] = above & ~large[k];
      above &= large[k];
    }
    bits[count_ - 1] = above;
  }

 private:
  static constexpr int kWordBits = 8 * sizeof(Word);

  size_t count_;
  int shift_;
  std::array<Word, kThresholdCountMax> thresholds_{};
  std::array<uint8_t, 256> class_of_{};  // by exponent
};

using ClassCounts = std::array<uint64_t, kClassCountMax>;

// Memory that is touched only as far as it is used, and then kept.
struct FoundMemory {
  std::array<Buffer, kClassCountMax> gaps;
  std::array<Buffer, kClassCountMax> differences;
};

// The changes of each class, in the order in which they are found.
template <typename Word>
class FoundChanges {
 public:
  // Borrows the memory.
  FoundChanges(size_t count_max, FoundMemory& memory) : memory_(memory) {
    for (size_t k = 0; k < kClassCountMax; ++k) {
      memory.gaps[k].Reserve(count_max * sizeof(uint32_t));
      memory.differences[k].Reserve(count_max * sizeof(Word));
    }
  }

  uint32_t* gaps(size_t k) {  // words of the class between two changes
    return reinterpret_cast<uint32_t*>(memory_.gaps[k].data());
  }
  Word* differences(size_t k) {
    return reinterpret_cast<Word*>(memory_.differences[k].data());
  }

  ClassCounts word_counts{};
  ClassCounts change_counts{};

 private:
  FoundMemory& memory_;
};

template <typename Word>
[[gnu::always_inline]] inline void CollectInline(
    const Groups<Word>& base, const Groups<Word>& next,
    const Classes<Word>& classes, const std::vector<uint64_t>& changed,
    FoundChanges<Word>& found) {
  uint64_t seen[kClassCountMax] = {};  // words of the class so far
  uint64_t last[kClassCountMax] = {};  // the first word after the last change
  uint32_t* gap[kClassCountMax];
  Word* difference[kClassCountMax];
  for (size_t k = 0; k < kClassCountMax; ++k) {
    gap[k] = found.gaps(k);
    difference[k] = found.differences(k);
  }
  for (size_t group = 0; group < base.count(); ++group) {
    const Word* const from = base.At(group);
    const Word* const to = next.At(group);
    uint64_t bits[kClassCountMax];
    classes.Divide(from, base.ValidAt(group), bits);
    for (uint64_t rest = changed[group]; rest != 0; rest &= rest - 1) {
      const int i = std::countr_zero(rest);
      const size_t k = classes.Of(from[i]);
      const uint64_t below = bits[k] & ((uint64_t{1} << i) - 1);
      const uint64_t place = seen[k] + std::popcount(below);
      *gap[k]++ = static_cast<uint32_t>(place - last[k]);
      *difference[k]++ = static_cast<Word>(DifferenceOf(from[i], to[i]) - 1);
      last[k] = place + 1;
    }
    for (size_t k = 0; k < classes.count(); ++k) {
      seen[k] += std::popcount(bits[k]);
    }
  }
  for (size_t k = 0; k < kClassCountMax; ++k) {
    found.word_counts[k] = seen[k];
    found.change_counts[k] = gap[k] - found.gaps(k);
  }
}

template <typename Word>
HF_TARGET_BITS void CollectBits(const Groups<Word>& base,
                                const Groups<Word>& next,
                                const Classes<Word>& classes,
                                const std::vector<uint64_t>& changed,
                                FoundChanges<Word>& found) {
  CollectInline(base, next, classes, changed, found);
}

template <typename Word>
void Collect(const Groups<Word>& base, const Groups<Word>& next,
             const Classes<Word>& classes, const std::vector<uint64_t>& changed,
             FoundChanges<Word>& found) {
  if (Cpu().has_bmi2) {
    CollectBits(base, next, classes, changed, found);
    return;
  }
  CollectInline(base, next, classes, changed, found);
}

// The decoded changes of one class.
template <typename Word>
struct ClassChanges {
  uint64_t word_count = 0;
  std::vector<uint32_t> gaps;
  std::vector<Word> differences;
  std::vector<uint64_t> places;  // a bit for each word of the class

  // Returns false when a change is beyond the words.
  bool FindPlaces() {
    // The requested range may begin in the last 64 words.
    places.assign(word_count / 64 + 2, 0);
    uint64_t at = 0;
    for (const uint32_t gap : gaps) {
      at += gap;
      if (at >= word_count) return false;
      places[at / 64] |= uint64_t{1} << at % 64;
      ++at;
    }
    return true;
  }
  // Returns the 64 bits from `first` on. REQUIRES: first <= word_count.
  uint64_t PlacesFrom(uint64_t first) const {
    const uint64_t* const at = places.data() + first / 64;
    const int shift = static_cast<int>(first % 64);
    return at[0] >> shift | at[1] << 1 << (63 - shift);
  }
};
template <typename Word>
using AllChanges = std::array<ClassChanges<Word>, kClassCountMax>;

// Deposits the first bits at the positions of the mask's set bits, in order.
struct DepositPlain {
  static uint64_t Of(uint64_t bits, uint64_t mask) {
    uint64_t deposited = 0;
    const int count = std::popcount(mask);
    if (count < 64) bits &= (uint64_t{1} << count) - 1;
    for (; bits != 0; bits &= bits - 1) {
      deposited |= uint64_t{1} << SelectBit(mask, std::countr_zero(bits));
    }
    return deposited;
  }
};
#if defined(__x86_64__)
struct DepositBmi2 {
  // The intrinsic is not used, because it needs a separate function for this
  // processor.
  [[gnu::always_inline]] static uint64_t Of(uint64_t bits, uint64_t mask) {
    uint64_t deposited;
    asm("pdep %2, %1, %0" : "=r"(deposited) : "r"(bits), "r"(mask));
    return deposited;
  }
};
#else
using DepositBmi2 = DepositPlain;
#endif

// Uses one loop over all changes of a group, because it is random which words
// change, and each loop that ends costs a mispredicted branch. Returns false if
// the actual word counts of the classes differ from the stated counts.
template <typename Deposit, typename Word>
[[gnu::always_inline]] inline bool MergeInline(Word* words, size_t word_count,
                                               const Classes<Word>& classes,
                                               const AllChanges<Word>& all) {
  const Groups<Word> groups(words, word_count);
  ClassCounts seen{};  // words of the class so far
  const Word* next[kClassCountMax] = {};
  for (size_t k = 0; k < classes.count(); ++k) {
    next[k] = all[k].differences.data();
  }
  for (size_t group = 0; group < groups.count(); ++group) {
    uint64_t bits[kClassCountMax];
    classes.Divide(groups.At(group), groups.ValidAt(group), bits);
    uint64_t changed = 0;
    bool is_within = true;
    for (size_t k = 0; k < classes.count(); ++k) {
      changed |= Deposit::Of(all[k].PlacesFrom(seen[k]), bits[k]);
      seen[k] += std::popcount(bits[k]);
      is_within &= seen[k] <= all[k].word_count;
    }
    if (!is_within) return false;
    Word* const to = words + group * kGroupWords;
    for (; changed != 0; changed &= changed - 1) {
      const int i = std::countr_zero(changed);
      to[i] = Changed(to[i], *next[classes.Of(to[i])]++);
    }
  }
  return true;
}

template <typename Word>
HF_TARGET_BITS bool MergeBits(Word* words, size_t word_count,
                              const Classes<Word>& classes,
                              const AllChanges<Word>& all) {
  return MergeInline<DepositBmi2>(words, word_count, classes, all);
}

template <typename Word>
bool Merge(Word* words, size_t word_count, const Classes<Word>& classes,
           const AllChanges<Word>& all) {
  if (Cpu().has_bmi2) return MergeBits(words, word_count, classes, all);
  return MergeInline<DepositPlain>(words, word_count, classes, all);
}

template <typename Word>
std::vector<ExponentCount> CountExponents(const WordKind& kind,
                                          const Groups<Word>& base,
                                          const std::vector<uint64_t>& changed,
                                          size_t word_count) {
  const int shift = kind.mantissa_bits;
  std::vector<ExponentCount> counts(size_t{1}
                                    << (8 * sizeof(Word) - 1 - shift));
  const size_t step = word_count >= kSampledFromWords ? kSampledGroups : 1;
  const auto exponent_of = [shift](Word word) {
    return static_cast<size_t>((word & kMagnitudeMask<Word>) >> shift);
  };
  for (size_t group = 0; group < base.count(); group += step) {
    const Word* const words = base.At(group);
    for (uint64_t rest = base.ValidAt(group); rest != 0; rest &= rest - 1) {
      const int i = std::countr_zero(rest);
      ExponentCount& count = counts[exponent_of(words[i])];
      count.word_count += step;
      count.change_count += (changed[group] >> i & 1) * step;
    }
  }
  return counts;
}

// Writes the runs of numbers, distances and then differences of each class, as
// streams.
class NumberWriter {
 public:
  template <typename Number>
  void AddRun(std::span<const Number> numbers) {
    if (numbers.empty()) return;
    std::string& symbols = symbols_.emplace_back(numbers.size(), '\0');
    bits_.Reserve((numbers.size() + 1) * sizeof(uint64_t));
    char* out = bits_.data();
    uint64_t held = 0;
    int held_count = 0;  // less than 8 between two numbers
    for (size_t i = 0; i < numbers.size(); ++i) {
      const Bucketed bucketed = BucketOf(numbers[i]);
      symbols[i] = static_cast<char>(bucketed.symbol);
      // The bits fit: the symbol of a 64-bit number holds two of its bits, and
      // 56 and more bits are written in two parts.
      const int low_count = std::min(bucketed.bit_count, 32);
      for (const auto& [bits, count] :
           {std::pair(bucketed.bits & ((uint64_t{1} << low_count) - 1),
                      low_count),
            std::pair(bucketed.bits >> low_count,
                      bucketed.bit_count - low_count)}) {
        held |= bits << held_count;
        held_count += count;
        StoreLittle(out, held);
        out += held_count / 8;
        held >>= held_count & ~7;
        held_count &= 7;
        if constexpr (sizeof(Number) <= 4) break;
      }
    }
    if (held_count > 0) *out++ = static_cast<char>(held);
    all_bits_.append(bits_.data(), static_cast<size_t>(out - bits_.data()));
  }

  void Finish(std::string& out) {
    std::vector<Frequencies> frequencies;
    BitWriter head;
    for (const std::string& symbols : symbols_) {
      frequencies.push_back(FrequenciesOf(CountBytes(symbols)));
      WriteFrequencies(frequencies.back(), head);
    }
    const std::string head_bits = head.Finish();
    RansEncoder encoder;
    for (size_t i = symbols_.size(); i-- > 0;) {
      encoder.EncodeRun(symbols_[i], frequencies[i]);
    }
    PutVarint(out, head_bits.size() + all_bits_.size());
    out += head_bits;
    out += all_bits_;
    out += encoder.Finish();
  }

 private:
  std::vector<std::string> symbols_;  // of each run
  Buffer bits_;                       // of one run
  std::string all_bits_;
};

// Reads the numbers that the stream's symbols encode.
class NumberReader {
 public:
  NumberReader() : decoder_(std::make_unique<RansDecoder>()) {
    for (int i = 0; i < kSymbolCount; ++i) {
      starts_[i] = BucketStart(static_cast<uint8_t>(i));
      bit_counts_[i] = BucketBitCount(static_cast<uint8_t>(i));
    }
  }

  // Reads the frequencies of `run_count` runs.
  bool Open(Cursor& in, size_t run_count) {
    uint64_t bit_bytes = 0;
    std::string_view bit_stream, stream;
    if (in.ReadVarint(in.remaining(), bit_bytes) != Cursor::VarintResult::kOk ||
        !in.ReadBytes(bit_bytes, bit_stream) ||
        !in.ReadBytes(in.remaining(), stream)) {
      return false;
    }
    bits_ = BitReader(bit_stream);
    frequencies_.resize(run_count);
    for (Frequencies& one : frequencies_) {
      if (!ReadFrequencies(bits_, one)) return false;
    }
    bits_.Align();
    return decoder_->Open(stream);
  }

  template <typename Number>
  bool TakeRun(std::vector<Number>& numbers) {
    symbols_.resize(numbers.size());
    if (!decoder_->DecodeRun(frequencies_[run_++], symbols_)) return false;
    for (size_t i = 0; i < numbers.size(); ++i) {
      const uint8_t symbol = symbols_[i];
      numbers[i] = static_cast<Number>(starts_[symbol] +
                                       bits_.Take(bit_counts_[symbol]));
    }
    bits_.Align();
    return !bits_.is_past_end();
  }

  bool IsAtEnd() const { return decoder_->IsAtEnd() && bits_.is_at_end(); }

 private:
  std::array<uint64_t, kSymbolCount> starts_;
  std::array<int, kSymbolCount> bit_counts_;
  BitReader bits_{std::string_view()};
  std::vector<Frequencies> frequencies_;
  size_t run_ = 0;
  const std::unique_ptr<RansDecoder> decoder_;
  std::vector<uint8_t> symbols_;
};

template <typename Word>
bool DecodeRuns(Cursor& in, size_t class_count, AllChanges<Word>& changes) {
  size_t used_count = 0;
  for (size_t k = 0; k < class_count; ++k) {
    used_count += changes[k].gaps.empty() ? 0 : 1;
  }
  NumberReader reader;
  if (!reader.Open(in, 2 * used_count)) return false;
  for (size_t k = 0; k < class_count; ++k) {
    if (changes[k].gaps.empty()) continue;
    if (!reader.TakeRun(changes[k].gaps) ||
        !reader.TakeRun(changes[k].differences)) {
      return false;
    }
  }
  for (size_t k = 0; k < class_count; ++k) {
    if (!changes[k].FindPlaces()) return false;
  }
  return reader.IsAtEnd();
}

template <typename Word>
class Coder {
 public:
  Coder(const WordKind& kind, size_t word_count)
      : kind_(kind), word_count_(word_count) {}

  std::string EncodeTiny(const Groups<Word>& base, const Groups<Word>& next,
                         const std::vector<uint64_t>& changed) const {
    std::string out;
    uint64_t last = 0;
    for (size_t group = 0; group < base.count(); ++group) {
      for (uint64_t rest = changed[group]; rest != 0; rest &= rest - 1) {
        const int i = std::countr_zero(rest);
        const uint64_t place = group * kGroupWords + i;
        PutVarint(out, place - last);
        PutVarint(out, DifferenceOf(base.At(group)[i], next.At(group)[i]) - 1);
        last = place + 1;
      }
    }
    return out;
  }

  static bool ApplyTiny(Cursor& in, uint64_t change_count, Word* words,
                        size_t word_count) {
    uint64_t at = 0;
    for (uint64_t n = 0; n < change_count; ++n) {
      uint64_t gap = 0, difference = 0;
      if (in.ReadVarint(kDeltaWordsMax, gap) != Cursor::VarintResult::kOk ||
          in.ReadVarint(std::numeric_limits<Word>::max(), difference) !=
              Cursor::VarintResult::kOk) {
        return false;
      }
      at += gap;
      if (at >= word_count) return false;
      words[at] = Changed(words[at], static_cast<Word>(difference));
      ++at;
    }
    return in.remaining() == 0;
  }

  std::string EncodeClasses(const Groups<Word>& base, const Groups<Word>& next,
                            const std::vector<uint64_t>& changed,
                            uint64_t change_count, FoundMemory& memory) const {
    std::vector<uint32_t> exponents;
    if (HasClasses()) {
      exponents =
          ChooseThresholds(CountExponents(kind_, base, changed, word_count_));
    }
    const Classes<Word> classes(kind_, exponents);
    FoundChanges<Word> found(change_count, memory);
    Collect(base, next, classes, changed, found);
    std::string out;
    out.push_back(static_cast<char>(classes.count()));
    for (const uint32_t exponent : exponents) PutVarint(out, exponent);
    NumberWriter numbers;
    for (size_t k = 0; k < classes.count(); ++k) {
      const size_t count = found.change_counts[k];
      PutVarint(out, found.word_counts[k]);
      PutVarint(out, count);
      numbers.AddRun(std::span<const uint32_t>(found.gaps(k), count));
      numbers.AddRun(std::span<const Word>(found.differences(k), count));
    }
    numbers.Finish(out);
    return out;
  }

  bool ApplyClasses(Cursor& in, uint64_t change_count, Word* words) const {
    AllChanges<Word> changes;
    std::vector<uint32_t> exponents;
    if (!ReadClasses(in, change_count, exponents, changes)) return false;
    const Classes<Word> classes(kind_, exponents);
    if (!DecodeRuns(in, classes.count(), changes)) return false;
    return Merge(words, word_count_, classes, changes);
  }

 private:
  bool HasClasses() const { return kind_.mantissa_bits >= 0; }

  // Reads the thresholds, and makes room for the changes of each class.
  bool ReadClasses(Cursor& in, uint64_t change_count,
                   std::vector<uint32_t>& exponents,
                   AllChanges<Word>& changes) const {
    uint8_t count = 0;
    if (!in.ReadByte(count) || count == 0 || count > kClassCountMax) {
      return false;
    }
    if (count > 1 && !HasClasses()) return false;
    for (uint8_t k = 1; k < count; ++k) {
      uint64_t exponent = 0;
      const uint64_t exponent_max =
          uint64_t{kMagnitudeMask<Word>} >> kind_.mantissa_bits;
      const uint64_t last = exponents.empty() ? 0 : exponents.back();
      if (in.ReadVarint(exponent_max, exponent) != Cursor::VarintResult::kOk ||
          exponent <= last) {
        return false;
      }
      exponents.push_back(static_cast<uint32_t>(exponent));
    }
    uint64_t words = 0, all_changes = 0;
    for (uint8_t k = 0; k < count; ++k) {
      uint64_t of_class = 0;
      if (in.ReadVarint(word_count_ - words, changes[k].word_count) !=
              Cursor::VarintResult::kOk ||
          in.ReadVarint(change_count - all_changes, of_class) !=
              Cursor::VarintResult::kOk) {
        return false;
      }
      words += changes[k].word_count;
      all_changes += of_class;
      changes[k].gaps.resize(of_class);
      changes[k].differences.resize(of_class);
    }
    return words == word_count_ && all_changes == change_count;
  }

  const WordKind kind_;
  const size_t word_count_;
};

template <typename Word>
const Word* WordsOf(std::string_view bytes) {
  return reinterpret_cast<const Word*>(bytes.data());
}

}  // namespace

struct SparseDelta::Scratch {
  std::vector<uint64_t> changed;  // one bit per word
  uint64_t change_count = 0;
  FoundMemory memory;
};

SparseDelta::SparseDelta() : scratch_(std::make_unique<Scratch>()) {}
SparseDelta::~SparseDelta() = default;

uint64_t SparseDelta::CountChanges(const WordKind& kind, std::string_view base,
                                   std::string_view next) {
  const size_t word_count = base.size() / kind.word_bytes;
  return WithWord(kind.word_bytes, [&]<typename Word>(Word) {
    const Groups<Word> from(WordsOf<Word>(base), word_count);
    const Groups<Word> to(WordsOf<Word>(next), word_count);
    scratch_->changed.resize(from.count());
    uint64_t sum = 0;
    for (size_t group = 0; group < from.count(); ++group) {
      const uint64_t bits = DifferentWords(from.At(group), to.At(group));
      scratch_->changed[group] = bits;
      sum += std::popcount(bits);
    }
    scratch_->change_count = sum;
    return sum;
  });
}

std::string SparseDelta::Encode(const WordKind& kind, std::string_view base,
                                std::string_view next) {
  const size_t word_count = base.size() / kind.word_bytes;
  std::string out;
  PutVarint(out, scratch_->change_count);
  return WithWord(kind.word_bytes, [&]<typename Word>(Word) {
    const Groups<Word> from(WordsOf<Word>(base), word_count);
    const Groups<Word> to(WordsOf<Word>(next), word_count);
    const Coder<Word> coder(kind, word_count);
    out += scratch_->change_count <= kTinyChangesMax
               ? coder.EncodeTiny(from, to, scratch_->changed)
               : coder.EncodeClasses(from, to, scratch_->changed,
                                     scratch_->change_count, scratch_->memory);
    return std::move(out);
  });
}

bool SparseDelta::Apply(const WordKind& kind, std::string_view coded,
                        std::span<char> words) {
  const size_t word_count = words.size() / kind.word_bytes;
  Cursor in(coded);
  uint64_t change_count = 0;
  if (in.ReadVarint(word_count, change_count) != Cursor::VarintResult::kOk) {
    return false;
  }
  return WithWord(kind.word_bytes, [&]<typename Word>(Word) {
    auto* const to = reinterpret_cast<Word*>(words.data());
    if (change_count <= kTinyChangesMax) {
      return Coder<Word>::ApplyTiny(in, change_count, to, word_count);
    }
    return Coder<Word>(kind, word_count).ApplyClasses(in, change_count, to);
  });
}

}  // namespace holdfast
