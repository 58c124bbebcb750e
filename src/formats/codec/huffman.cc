#include "formats/codec/huffman.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <vector>

#include "ground/base/coding.h"
#include "ground/base/cpu.h"

namespace holdfast {
namespace {

constexpr size_t kStreamCount = kHuffmanStreamCount;
constexpr size_t kJumpTableBytes = 6;
constexpr size_t kWordBytes = sizeof(uint64_t);

// Codes written to, or read from, a word that holds at least 57 bits.
constexpr int kCodesAtOnce = 5;
static_assert(kCodesAtOnce * kHuffmanBitsMax + 7 < 64);

constexpr ptrdiff_t kStepCountMax = 1 << 20;
constexpr size_t kEntryBytesMax = 6;
constexpr int kEntryBytesShift = 8;
constexpr int kEntryCountShift = 56;

// If codes are longer than this on average, a lookup of 11 bits yields too few
// bytes to be worth counting. Measured: at 6.2 bits, 1.26 GB/s with several
// bytes per lookup and 1.51 with one; at 2.7 bits, 3.8 and 1.5.
constexpr size_t kLongCodeBits = 5;

// On x86-64 the kernels are compiled a second time for BMI2, whose shifts need
// neither flags nor a fixed register.

#if defined(__x86_64__)
#define HF_TARGET_BMI2 __attribute__((target("bmi2")))
#else
#define HF_TARGET_BMI2
#endif

const bool has_bmi2 = Cpu().has_bmi2;

// Code lengths.

struct Leaf {
  uint32_t count;
  uint8_t byte;
};

// Returns the lengths of the best codes of at most kHuffmanBitsMax bits, by the
// package-merge algorithm (Larmore and Hirschberg, 1990). `leaves` are sorted
// by count. A level's list has all leaves, and pairs of neighbors in the
// previous list, sorted by count. A prefix of each list is selected. A leaf
// costs one bit for each selected prefix that contains it.
std::array<uint8_t, 256> CodeLengths(std::span<const Leaf> leaves) {
  constexpr uint64_t kNone = ~uint64_t{0};
  constexpr size_t kListMax = 2 * 256;
  const size_t count = leaves.size();
  std::array<uint64_t, 256 + 1> leaf_sums;
  for (size_t i = 0; i < count; ++i) leaf_sums[i] = leaves[i].count;
  leaf_sums[count] = kNone;
  std::array<uint64_t, kListMax / 2 + 1> pair_sums;
  std::array<uint64_t, kListMax> list;
  size_t list_count = 0;
  // The number of leaves in each prefix of each list.
  std::array<std::array<uint16_t, kListMax + 1>, kHuffmanBitsMax> leaves_among;
  for (auto& among : leaves_among) {
    const size_t pair_count = list_count / 2;
    for (size_t i = 0; i < pair_count; ++i) {
      pair_sums[i] = list[2 * i] + list[2 * i + 1];
    }
    pair_sums[pair_count] = kNone;
    list_count = count + pair_count;
    size_t leaf = 0;
    size_t pair = 0;
    among[0] = 0;
    for (size_t i = 0; i < list_count; ++i) {
      const bool takes_leaf = leaf_sums[leaf] <= pair_sums[pair];
      list[i] = takes_leaf ? leaf_sums[leaf] : pair_sums[pair];
      leaf += takes_leaf;
      pair += !takes_leaf;
      among[i + 1] = static_cast<uint16_t>(leaf);
    }
  }
  std::array<uint8_t, 256> lengths{};
  size_t taken = 2 * count - 2;
  for (size_t level = leaves_among.size(); level-- > 0;) {
    const size_t leaf_count = leaves_among[level][taken];
    for (size_t i = 0; i < leaf_count; ++i) ++lengths[i];
    taken = 2 * (taken - leaf_count);
  }
  return lengths;
}

HuffmanWeights WeightsOf(const ByteCounts& counts) {
  std::vector<Leaf> leaves;
  for (size_t byte = 0; byte < counts.size(); ++byte) {
    if (counts[byte] > 0) {
      leaves.push_back({counts[byte], static_cast<uint8_t>(byte)});
    }
  }
  HuffmanWeights weights;
  if (leaves.size() < 2) return weights;
  std::sort(leaves.begin(), leaves.end(), [](const Leaf& a, const Leaf& b) {
    return a.count != b.count ? a.count < b.count : a.byte < b.byte;
  });
  const auto lengths = CodeLengths(leaves);
  weights.bit_count_max = lengths[0];  // of the rarest byte
  for (size_t i = 0; i < leaves.size(); ++i) {
    weights.of_byte[leaves[i].byte] =
        static_cast<uint8_t>(weights.bit_count_max + 1 - lengths[i]);
  }
  return weights;
}

// Returns the bytes in the order of their codes, longest code first.
std::vector<uint8_t> OrderOf(const HuffmanWeights& weights) {
  std::array<size_t, kHuffmanBitsMax + 2> starts{};  // of each weight
  for (const uint8_t weight : weights.of_byte) {
    if (weight > 0) ++starts[weight + 1];
  }
  for (size_t w = 1; w < starts.size(); ++w) starts[w] += starts[w - 1];
  std::vector<uint8_t> ordered(starts.back());
  for (size_t byte = 0; byte < 256; ++byte) {
    const uint8_t weight = weights.of_byte[byte];
    if (weight > 0) ordered[starts[weight]++] = static_cast<uint8_t>(byte);
  }
  return ordered;
}

// Writes one stream and returns its size. Writes from the last byte of `in` to
// the first, because readers start at the stream's end. A code is stored above
// its length, so that lengths can be added and used as shift counts unmasked:
// the processor uses only the lowest 6 bits of a shift count.
[[gnu::always_inline]] inline size_t EncodeStreamInline(std::string_view in,
                                                        const uint32_t* codes,
                                                        char* out) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(in.data());
  uint64_t word = 0;
  unsigned bit_count = 0;
  char* p = out;
  const auto put = [&](uint64_t bits, unsigned more_count) {
    word |= bits << bit_count;
    bit_count += more_count & 0xFF;
    StoreLittle(p, word);
    p += bit_count >> 3;
    word >>= bit_count & 0x38;
    bit_count &= 7;
  };
  const auto code_at = [&](size_t i) { return codes[bytes[i]]; };
  const auto bits_of = [](uint32_t code) { return uint64_t{code >> 8}; };
  size_t i = in.size();
  for (; i % kCodesAtOnce != 0; --i) {
    const uint32_t code = code_at(i - 1);
    put(bits_of(code), code);
  }
  for (; i > 0; i -= kCodesAtOnce) {
    // Pairs are combined first, which makes the chain of dependent steps
    // shorter.
    const uint32_t a = code_at(i - 1);
    const uint32_t b = code_at(i - 2);
    const uint32_t c = code_at(i - 3);
    const uint32_t d = code_at(i - 4);
    const uint32_t e = code_at(i - 5);
    const uint64_t ab = bits_of(a) | bits_of(b) << (a & 63);
    const uint64_t cd = bits_of(c) | bits_of(d) << (c & 63);
    const uint64_t cde = cd | bits_of(e) << ((c + d) & 63);
    put(ab | cde << ((a + b) & 63), a + b + c + d + e);
  }
  put(1, 1);
  return p - out + (bit_count > 0 ? 1 : 0);
}

size_t EncodeStreamPlain(std::string_view in, const uint32_t* codes,
                         char* out) {
  return EncodeStreamInline(in, codes, out);
}

HF_TARGET_BMI2 size_t EncodeStreamBmi2(std::string_view in,
                                       const uint32_t* codes, char* out) {
  return EncodeStreamInline(in, codes, out);
}

}  // namespace

ByteCounts CountBytes(std::string_view in) {
  // Uses eight tables, so that runs of equal bytes do not wait for the same
  // counter.
  std::array<ByteCounts, 8> counts{};
  size_t i = 0;
  for (; i + kWordBytes <= in.size(); i += kWordBytes) {
    const auto word = LoadLittle<uint64_t>(in.data() + i);
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k) ++counts[k][word >> (8 * k) & 0xFF];
  }
  for (; i < in.size(); ++i) ++counts[0][static_cast<uint8_t>(in[i])];
  for (size_t byte = 0; byte < 256; ++byte) {
    for (size_t k = 1; k < counts.size(); ++k) {
      counts[0][byte] += counts[k][byte];
    }
  }
  return counts[0];
}

double EntropyBits(const ByteCounts& counts) {
  double total = 0;
  double sum = 0;
  for (const uint32_t count : counts) {
    if (count == 0) continue;
    total += count;
    sum += count * std::log2(static_cast<double>(count));
  }
  return total > 0 ? total * std::log2(total) - sum : 0;
}

std::optional<HuffmanCode> HuffmanCode::Of(const ByteCounts& counts) {
  const HuffmanWeights weights = WeightsOf(counts);
  if (weights.bit_count_max == 0) return std::nullopt;
  auto description = DescribeHuffmanWeights(weights);
  if (!description) return std::nullopt;
  HuffmanCode code;
  code.description_ = *std::move(description);
  unsigned next = 0;  // in units of 2^-bit_count_max
  for (const uint8_t byte : OrderOf(weights)) {
    const int weight = weights.of_byte[byte];
    const unsigned bit_count =
        static_cast<unsigned>(weights.bit_count_max + 1 - weight);
    code.codes_[byte] = next >> (weight - 1) << 8 | bit_count;
    next += 1u << (weight - 1);
  }
  assert(next == 1u << weights.bit_count_max);
  return code;
}

std::optional<uint64_t> HuffmanCode::BitsOf(const ByteCounts& counts) const {
  uint64_t bit_count = 0;
  bool is_whole = true;
  for (size_t byte = 0; byte < 256; ++byte) {
    const uint32_t code_bits = codes_[byte] & 0xFF;
    is_whole &= counts[byte] == 0 || code_bits > 0;
    bit_count += uint64_t{counts[byte]} * code_bits;
  }
  return is_whole ? std::optional(bit_count) : std::nullopt;
}

size_t HuffmanCode::Encode(std::string_view in, char* out) const {
  const size_t part_bytes = (in.size() + kStreamCount - 1) / kStreamCount;
  char* p = out + kJumpTableBytes;
  for (size_t i = 0; i < kStreamCount; ++i) {
    const std::string_view part =
        in.substr(std::min(in.size(), i * part_bytes), part_bytes);
    const size_t byte_count = has_bmi2
                                  ? EncodeStreamBmi2(part, codes_.data(), p)
                                  : EncodeStreamPlain(part, codes_.data(), p);
    if (i + 1 < kStreamCount) {
      StoreLittle(out + 2 * i, static_cast<uint16_t>(byte_count));
    }
    p += byte_count;
  }
  return p - out;
}

// Decoding.

// A partly read stream. `bits` holds the next bits, the first one in the
// highest place. Its lowest set bit shows how many were consumed since it was
// loaded from `at`.
struct HuffmanTable::Reader {
  std::string_view stream;
  const char* at = nullptr;  // null: nothing was loaded
  uint64_t bits = 0;
  char* out = nullptr;
  char* out_end = nullptr;

  bool is_valid() const { return !stream.empty() && stream.back() != 0; }
  // Returns the number of bits of the last byte that belong to no code: the
  // highest set bit, which marks the end, and the bits above it.
  int mark_bits() const {
    return 9 - std::bit_width(static_cast<uint8_t>(stream.back()));
  }
  int64_t bits_left() const {
    if (at == nullptr) {
      return static_cast<int64_t>(stream.size()) * 8 - mark_bits();
    }
    return (at - stream.data()) * 8 + 64 - std::countr_zero(bits);
  }

  // Loads the word at `at`, of which the upper `taken` bits were consumed.
  void Load(int taken) { bits = (LoadLittle<uint64_t>(at) | 1) << taken; }
  void LoadFirst() {
    at = stream.data() + stream.size() - kWordBytes;
    Load(mark_bits());
  }
  void Reload() {
    const int taken = std::countr_zero(bits);
    at -= taken >> 3;
    Load(taken & 7);
  }

  // Returns how many steps are safe. A step consumes at most 62 bits: 7 bytes
  // and a rest.
  ptrdiff_t SafeSteps(ptrdiff_t step_bytes_max, ptrdiff_t spare_bytes) const {
    return std::min((at - stream.data()) / 7,
                    (out_end - out - spare_bytes) / step_bytes_max);
  }
};

// The effects of one lookup with a stream's next bits. Each lookup writes up to
// kBytesMax bytes and may touch kSpareBytes more.

struct HuffmanTable::LookForMany {
  static constexpr ptrdiff_t kBytesMax = kEntryBytesMax;
  static constexpr ptrdiff_t kSpareBytes = kWordBytes - kEntryBytesMax;

  explicit LookForMany(const HuffmanTable& table)
      : entries(table.entries_.data()) {}
  void operator()(Reader& reader) const {
    const uint64_t entry = entries[reader.bits >> (64 - kHuffmanBitsMax)];
    StoreLittle(reader.out, entry >> kEntryBytesShift);
    reader.bits <<= entry & 63;
    reader.out += entry >> kEntryCountShift;
  }
  const uint64_t* entries;
};

struct HuffmanTable::LookForOne {
  static constexpr ptrdiff_t kBytesMax = 1;
  static constexpr ptrdiff_t kSpareBytes = 0;

  explicit LookForOne(const HuffmanTable& table)
      : entries(table.single_entries_.data()) {}
  void operator()(Reader& reader) const {
    const uint64_t entry = entries[reader.bits >> (64 - kHuffmanBitsMax)];
    *reader.out++ = static_cast<char>(entry >> kEntryBytesShift);
    reader.bits <<= entry & 63;
  }
  const uint16_t* entries;
};

// Decodes while no stream can run out of bits or room. Checks both only once
// for as many steps as the worst case allows.
template <typename Look>
[[gnu::always_inline]] inline void HuffmanTable::DecodeRounds(
    std::span<Reader, kHuffmanStreamCount> readers) const {
  const Look look(*this);
  Reader r[kStreamCount] = {readers[0], readers[1], readers[2], readers[3]};
  for (;;) {
    ptrdiff_t step_count = kStepCountMax;
    for (const Reader& reader : r) {
      step_count = std::min(
          step_count,
          reader.SafeSteps(kCodesAtOnce * Look::kBytesMax, Look::kSpareBytes));
    }
    if (step_count <= 0) break;
    for (; step_count > 0; --step_count) {
#pragma GCC unroll 5
      for (int k = 0; k < kCodesAtOnce; ++k) {
#pragma GCC unroll 4
        for (size_t i = 0; i < kStreamCount; ++i) look(r[i]);
      }
#pragma GCC unroll 4
      for (size_t i = 0; i < kStreamCount; ++i) r[i].Reload();
    }
  }
  for (size_t i = 0; i < kStreamCount; ++i) readers[i] = r[i];
}

void HuffmanTable::DecodeFourPlain(
    std::span<Reader, kHuffmanStreamCount> readers) const {
  has_long_codes_ ? DecodeRounds<LookForOne>(readers)
                  : DecodeRounds<LookForMany>(readers);
}

HF_TARGET_BMI2 void HuffmanTable::DecodeFourBmi2(
    std::span<Reader, kHuffmanStreamCount> readers) const {
  has_long_codes_ ? DecodeRounds<LookForOne>(readers)
                  : DecodeRounds<LookForMany>(readers);
}

// Decodes one byte at a time, from the current position of the stream.
bool HuffmanTable::DecodeRest(Reader& reader) const {
  const auto* const bytes =
      reinterpret_cast<const uint8_t*>(reader.stream.data());
  int64_t left = reader.bits_left();
  while (reader.out < reader.out_end) {
    // The next 11 bits, with zeros after the end of the stream.
    uint64_t window = 0;
    const int64_t first_byte = std::max<int64_t>(0, left - 1) / 8;
    for (int64_t i = std::max<int64_t>(0, first_byte - 2); i <= first_byte;
         ++i) {
      window = window | uint64_t{bytes[i]} << (8 * (i - first_byte + 2));
    }
    // Bit `left` - 1 of the stream is at this position in the window.
    const int64_t top = left - 8 * (first_byte - 2);
    const uint64_t index = (window << (64 - top)) >> (64 - kHuffmanBitsMax);
    const auto byte = static_cast<uint8_t>(entries_[index] >> kEntryBytesShift);
    left -= bit_counts_[byte];
    if (left < 0) return false;
    *reader.out++ = static_cast<char>(byte);
  }
  return left == 0;
}

void HuffmanTable::Order(const HuffmanWeights& weights) {
  const std::vector<uint8_t> ordered = OrderOf(weights);
  ordered_count_ = ordered.size();
  std::copy(ordered.begin(), ordered.end(), ordered_.begin());
  bit_counts_ = {};
  for (const uint8_t byte : ordered) {
    bit_counts_[byte] =
        static_cast<uint8_t>(weights.bit_count_max + 1 - weights.of_byte[byte]);
  }
  for (int bits = 0; bits <= kHuffmanBitsMax; ++bits) {
    size_t first = 0;
    while (first < ordered_count_ && bit_counts_[ordered_[first]] > bits) {
      ++first;
    }
    unsigned fitting = 0;
    for (size_t i = first; i < ordered_count_; ++i) {
      fitting += 1u << (bits - bit_counts_[ordered_[i]]);
    }
    first_fitting_[bits] = static_cast<uint16_t>(first);
    longer_count_[bits] = static_cast<uint16_t>((1u << bits) - fitting);
  }
}

// Fills the entries from `base` on that begin with the bytes of `entry`, for
// all values of the `bits_left` bits that follow.
void HuffmanTable::Fill(size_t base, int bits_left, uint64_t entry) {
  const size_t byte_count = entry >> kEntryCountShift;
  if (byte_count == kEntryBytesMax) {
    std::fill_n(entries_.begin() + base, size_t{1} << bits_left, entry);
    return;
  }
  std::fill_n(entries_.begin() + base, longer_count_[bits_left], entry);
  base += longer_count_[bits_left];
  for (size_t i = first_fitting_[bits_left]; i < ordered_count_; ++i) {
    const uint8_t byte = ordered_[i];
    const int code_bits = bit_counts_[byte];
    const uint64_t longer =
        (entry | uint64_t{byte} << (kEntryBytesShift + 8 * byte_count)) +
        (uint64_t{1} << kEntryCountShift) + static_cast<uint64_t>(code_bits);
    Fill(base, bits_left - code_bits, longer);
    base += size_t{1} << (bits_left - code_bits);
  }
}

void HuffmanTable::FillSingle() {
  size_t bits_sum = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const auto byte = static_cast<uint8_t>(entries_[i] >> kEntryBytesShift);
    single_entries_[i] =
        static_cast<uint16_t>(byte << kEntryBytesShift | bit_counts_[byte]);
    bits_sum += bit_counts_[byte];
  }
  has_long_codes_ = bits_sum > kLongCodeBits * entries_.size();
}

bool HuffmanTable::Read(std::string_view description) {
  if (!description_.empty() && description == description_) return true;
  const auto weights = ParseHuffmanWeights(description);
  if (!weights) return false;
  description_ = description;
  Order(*weights);
  Fill(0, kHuffmanBitsMax, 0);
  FillSingle();
  return true;
}

bool HuffmanTable::Decode(std::string_view streams, bool has_four_streams,
                          std::span<char> out) const {
  Reader readers[kStreamCount];
  const size_t count = has_four_streams ? kStreamCount : 1;
  const size_t part_bytes = (out.size() + count - 1) / count;
  std::string_view rest = streams;
  if (has_four_streams) {
    if (streams.size() < kJumpTableBytes) return false;
    rest.remove_prefix(kJumpTableBytes);
  }
  for (size_t i = 0; i < count; ++i) {
    const bool is_last = i + 1 == count;
    const size_t byte_count =
        is_last ? rest.size() : LoadLittle<uint16_t>(streams.data() + 2 * i);
    if (byte_count > rest.size() || i * part_bytes > out.size()) return false;
    Reader& reader = readers[i];
    reader.stream = rest.substr(0, byte_count);
    rest.remove_prefix(byte_count);
    if (!reader.is_valid()) return false;
    reader.out = out.data() + i * part_bytes;
    reader.out_end = out.data() + std::min(out.size(), (i + 1) * part_bytes);
  }
  const bool is_long = std::all_of(
      readers, readers + count,
      [](const Reader& reader) { return reader.stream.size() >= kWordBytes; });
  if (has_four_streams && is_long) {
    for (Reader& reader : readers) reader.LoadFirst();
    has_bmi2 ? DecodeFourBmi2(readers) : DecodeFourPlain(readers);
  }
  for (size_t i = 0; i < count; ++i) {
    if (!DecodeRest(readers[i])) return false;
  }
  return true;
}

const HuffmanTable* HuffmanTables::Find(std::string_view description) {
  for (size_t i = 0; i < kTableCount; ++i) {
    if (tables_[i] != nullptr && tables_[i]->description() == description) {
      return tables_[i].get();
    }
  }
  auto& table = tables_[next_];
  if (table == nullptr) table = std::make_unique<HuffmanTable>();
  if (!table->Read(description)) return nullptr;
  next_ = (next_ + 1) % kTableCount;
  return table.get();
}

}  // namespace holdfast
