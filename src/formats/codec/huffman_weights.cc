#include "formats/codec/huffman_weights.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

namespace holdfast {
namespace {

constexpr int kWeightMax = 11;
constexpr size_t kDirectCountMax = 128;
constexpr uint8_t kDirectFlag = 127;  // and above: as many weights, 4 bits each
constexpr int kAccuracyLogMin = 5;
constexpr int kAccuracyLogMax = 6;  // of weights

// The expected frequency of each weight, in units of 2^-accuracy_log; -1 for
// less than one unit, which still takes one.
using WeightCounts = std::array<int, kWeightMax + 1>;

struct FseState {
  uint8_t weight = 0;
  uint8_t bit_count = 0;
  uint8_t baseline = 0;
};

struct FseTable {
  int accuracy_log = 0;
  std::array<FseState, size_t{1} << kAccuracyLogMax> states{};

  size_t state_count() const { return size_t{1} << accuracy_log; }
};

// Spreads and numbers the states as in RFC 8878, 4.1.1, "FSE Table
// Description".
FseTable MakeFseTable(const WeightCounts& counts, int accuracy_log) {
  FseTable table;
  table.accuracy_log = accuracy_log;
  const size_t count = table.state_count();
  size_t high = count;  // rare weights take the states from here on
  for (int w = 0; w <= kWeightMax; ++w) {
    if (counts[w] == -1) table.states[--high].weight = static_cast<uint8_t>(w);
  }
  const size_t step = (count >> 1) + (count >> 3) + 3;
  size_t at = 0;
  for (int w = 0; w <= kWeightMax; ++w) {
    for (int i = 0; i < counts[w]; ++i) {
      table.states[at].weight = static_cast<uint8_t>(w);
      do at = (at + step) & (count - 1);
      while (at >= high);
    }
  }
  std::array<unsigned, kWeightMax + 1> next{};
  for (int w = 0; w <= kWeightMax; ++w) {
    next[w] = counts[w] == -1 ? 1 : static_cast<unsigned>(counts[w]);
  }
  for (size_t s = 0; s < count; ++s) {
    FseState& state = table.states[s];
    const unsigned number = next[state.weight]++;
    const int bits = accuracy_log + 1 - std::bit_width(number);
    state.bit_count = static_cast<uint8_t>(bits);
    state.baseline = static_cast<uint8_t>((number << bits) - count);
  }
  return table;
}

// Writes bits, from the lowest bit of each byte on.
class BitWriter {
 public:
  // REQUIRES: value < 2^bit_count.
  void Put(unsigned value, int bit_count) {
    word_ |= uint64_t{value} << bit_count_;
    bit_count_ += bit_count;
    for (; bit_count_ >= 8; bit_count_ -= 8) {
      bytes_.push_back(static_cast<char>(word_));
      word_ >>= 8;
    }
  }
  std::string Take() {
    if (bit_count_ > 0) bytes_.push_back(static_cast<char>(word_));
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
  uint64_t word_ = 0;
  int bit_count_ = 0;
};

bool BitAt(std::string_view bytes, size_t at) {
  return static_cast<uint8_t>(bytes[at / 8]) >> (at % 8) & 1;
}

// Reads bits in the order in which a BitWriter wrote them.
class BitReader {
 public:
  explicit BitReader(std::string_view bytes) : bytes_(bytes) {}

  bool Get(int bit_count, unsigned& value) {
    if (at_ + bit_count > bytes_.size() * 8) return false;
    value = 0;
    for (int i = 0; i < bit_count; ++i) {
      value |= unsigned{BitAt(bytes_, at_ + i)} << i;
    }
    at_ += bit_count;
    return true;
  }
  size_t used_bytes() const { return (at_ + 7) / 8; }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
};

// Reads bits from the last, marked by a 1, to the first; zeros after that.
class BackwardBitReader {
 public:
  // REQUIRES: the last byte is not 0.
  explicit BackwardBitReader(std::string_view bytes) : bytes_(bytes) {
    left_ = static_cast<int64_t>(bytes.size()) * 8 - 9 +
            std::bit_width(static_cast<uint8_t>(bytes.back()));
  }

  unsigned Get(int bit_count) {
    unsigned value = 0;
    for (int i = 0; i < bit_count; ++i) {
      --left_;
      value = value << 1 | (left_ >= 0 && BitAt(bytes_, left_));
    }
    return value;
  }
  // Negative after more bits were requested than exist.
  int64_t left() const { return left_; }

 private:
  std::string_view bytes_;
  int64_t left_ = 0;
};

// A count is a value from 0 to `count_max`, so some values need one bit less
// than the others (RFC 8878, 4.1.1).
struct CountWidth {
  int bit_count = 0;
  unsigned short_count = 0;  // so many values have bit_count - 1 bits

  explicit CountWidth(unsigned count_max)
      : bit_count(std::bit_width(count_max)),
        short_count((1u << bit_count) - 1 - count_max) {}
};

void PutCount(int count, int left, BitWriter& writer) {
  const CountWidth width(static_cast<unsigned>(left) + 1);
  const auto value = static_cast<unsigned>(count + 1);
  const unsigned half = 1u << (width.bit_count - 1);
  if (value < width.short_count) {
    writer.Put(value, width.bit_count - 1);
  } else {
    writer.Put(value < half ? value : value + width.short_count,
               width.bit_count);
  }
}

bool GetCount(int left, BitReader& reader, int& count) {
  const CountWidth width(static_cast<unsigned>(left) + 1);
  const unsigned half = 1u << (width.bit_count - 1);
  unsigned value;
  if (!reader.Get(width.bit_count - 1, value)) return false;
  if (value >= width.short_count) {
    unsigned high;
    if (!reader.Get(1, high)) return false;
    if (high != 0) value += half - width.short_count;
  }
  count = static_cast<int>(value) - 1;
  return true;
}

void PutWeightCounts(const WeightCounts& counts, int accuracy_log,
                     BitWriter& writer) {
  writer.Put(static_cast<unsigned>(accuracy_log - kAccuracyLogMin), 4);
  int left = 1 << accuracy_log;
  for (int w = 0; left > 0; ++w) {
    PutCount(counts[w], left, writer);
    left -= counts[w];
    if (counts[w] != 0) continue;
    int zero_count = 0;  // that follow
    while (counts[w + 1 + zero_count] == 0) ++zero_count;
    w += zero_count;
    for (; zero_count >= 3; zero_count -= 3) writer.Put(3, 2);
    writer.Put(static_cast<unsigned>(zero_count), 2);
  }
}

bool GetWeightCounts(BitReader& reader, WeightCounts& counts,
                     int& accuracy_log) {
  unsigned log;
  if (!reader.Get(4, log)) return false;
  accuracy_log = static_cast<int>(log) + kAccuracyLogMin;
  if (accuracy_log > kAccuracyLogMax) return false;
  int left = 1 << accuracy_log;
  int w = 0;
  while (left > 0) {
    if (w > kWeightMax || !GetCount(left, reader, counts[w])) return false;
    const int count = counts[w++];
    left -= std::abs(count);
    if (count != 0) continue;
    unsigned zero_count = 3;
    while (zero_count == 3) {
      if (!reader.Get(2, zero_count)) return false;
      w += static_cast<int>(zero_count);
      if (w > kWeightMax) return false;
    }
  }
  return left == 0;
}

// Returns the frequency of each weight, scaled to 2^accuracy_log.
WeightCounts Normalise(std::span<const uint8_t> weights, int accuracy_log) {
  WeightCounts seen{};
  for (const uint8_t w : weights) ++seen[w];
  WeightCounts counts{};
  const int total = 1 << accuracy_log;
  int left = total;
  for (int w = 0; w <= kWeightMax; ++w) {
    if (seen[w] == 0) continue;
    counts[w] = std::max(1, seen[w] * total / static_cast<int>(weights.size()));
    left -= counts[w];
  }
  // The most frequent weight gets the rounding remainder.
  for (; left < 0; ++left) --*std::max_element(counts.begin(), counts.end());
  *std::max_element(counts.begin(), counts.end()) += left;
  return counts;
}

// Entry [w][s] is the state of weight w from which a decoder reaches state s.
// The bits that the encoder writes for w select this step.
using StatesBefore =
    std::array<std::array<uint8_t, size_t{1} << kAccuracyLogMax>,
               kWeightMax + 1>;

StatesBefore StatesBeforeOf(const FseTable& table) {
  StatesBefore before{};
  for (size_t s = 0; s < table.state_count(); ++s) {
    const FseState& state = table.states[s];
    std::fill_n(before[state.weight].begin() + state.baseline,
                size_t{1} << state.bit_count, static_cast<uint8_t>(s));
  }
  return before;
}

size_t FirstStateOf(const FseTable& table, uint8_t weight) {
  size_t s = 0;
  while (table.states[s].weight != weight) ++s;
  return s;
}

// Writes the weights backward, because a decoder goes forward. Two states
// alternate.
void PutWeights(const FseTable& table, std::span<const uint8_t> weights,
                BitWriter& writer) {
  const size_t count = weights.size();
  const StatesBefore states_before = StatesBeforeOf(table);
  size_t states[2];
  states[(count - 1) % 2] = FirstStateOf(table, weights[count - 1]);
  states[(count - 2) % 2] = FirstStateOf(table, weights[count - 2]);
  for (size_t i = count - 2; i-- > 0;) {
    size_t& state = states[i % 2];
    const size_t before = states_before[weights[i]][state];
    writer.Put(static_cast<unsigned>(state - table.states[before].baseline),
               table.states[before].bit_count);
    state = before;
  }
  writer.Put(static_cast<unsigned>(states[1]), table.accuracy_log);
  writer.Put(static_cast<unsigned>(states[0]), table.accuracy_log);
  writer.Put(1, 1);
}

// Codes the weights that are written: all but the last one.
std::optional<std::string> DescribeCoded(std::span<const uint8_t> weights) {
  const bool is_one_weight =
      std::all_of(weights.begin(), weights.end(),
                  [&](uint8_t w) { return w == weights[0]; });
  // If there is only one weight, its state takes no bits, so a decoder could
  // not tell how often it occurs.
  if (is_one_weight || weights.size() < 2) return std::nullopt;
  const int accuracy_log =
      weights.size() > 64 ? kAccuracyLogMax : kAccuracyLogMin;
  const WeightCounts counts = Normalise(weights, accuracy_log);
  BitWriter head;
  PutWeightCounts(counts, accuracy_log, head);
  BitWriter stream;
  PutWeights(MakeFseTable(counts, accuracy_log), weights, stream);
  std::string text = head.Take() + stream.Take();
  if (text.size() > kDirectFlag) return std::nullopt;
  text.insert(text.begin(), static_cast<char>(text.size()));
  return text;
}

std::optional<std::string> DescribeDirectly(std::span<const uint8_t> weights) {
  if (weights.size() > kDirectCountMax) return std::nullopt;
  std::string text(1, static_cast<char>(kDirectFlag + weights.size()));
  for (size_t i = 0; i < weights.size(); i += 2) {
    const int low = i + 1 < weights.size() ? weights[i + 1] : 0;
    text.push_back(static_cast<char>(weights[i] << 4 | low));
  }
  return text;
}

bool ParseDirect(std::string_view description, std::vector<uint8_t>& weights) {
  const size_t count = static_cast<uint8_t>(description[0]) - kDirectFlag;
  for (size_t i = 0; i < count; ++i) {
    const auto pair = static_cast<uint8_t>(description[1 + i / 2]);
    weights.push_back(i % 2 == 0 ? pair >> 4 : pair & 15);
  }
  return true;
}

bool ParseCoded(std::string_view coded, std::vector<uint8_t>& weights) {
  BitReader head(coded);
  WeightCounts counts{};
  int accuracy_log;
  if (!GetWeightCounts(head, counts, accuracy_log)) return false;
  const std::string_view stream = coded.substr(head.used_bytes());
  if (stream.empty() || stream.back() == 0) return false;
  const FseTable table = MakeFseTable(counts, accuracy_log);
  BackwardBitReader bits(stream);
  size_t states[2];
  states[0] = bits.Get(accuracy_log);
  states[1] = bits.Get(accuracy_log);
  if (bits.left() < 0) return false;
  for (size_t turn = 0;; turn ^= 1) {
    if (weights.size() >= 254) return false;
    const FseState& state = table.states[states[turn]];
    weights.push_back(state.weight);
    states[turn] = state.baseline + bits.Get(state.bit_count);
    if (bits.left() < 0) {
      weights.push_back(table.states[states[turn ^ 1]].weight);
      return true;
    }
  }
}

// Adds the last weight, which makes the codes complete.
std::optional<HuffmanWeights> Complete(std::span<const uint8_t> weights) {
  HuffmanWeights result;
  unsigned total = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > kWeightMax) return std::nullopt;
    result.of_byte[i] = weights[i];
    total += (1u << weights[i]) >> 1;
  }
  if (total == 0) return std::nullopt;
  result.bit_count_max = std::bit_width(total);
  const unsigned rest = (1u << result.bit_count_max) - total;
  if (result.bit_count_max > kWeightMax || !std::has_single_bit(rest)) {
    return std::nullopt;
  }
  result.of_byte[weights.size()] = static_cast<uint8_t>(std::bit_width(rest));
  // libzstd requires an even number of longest codes, at least two.
  const auto longest_count =
      std::count(result.of_byte.begin(), result.of_byte.end(), 1);
  if (longest_count < 2 || longest_count % 2 != 0) return std::nullopt;
  return result;
}

}  // namespace

std::optional<std::string> DescribeHuffmanWeights(
    const HuffmanWeights& weights) {
  size_t last = 255;
  while (weights.of_byte[last] == 0) --last;
  const std::span<const uint8_t> written(weights.of_byte.data(), last);
  auto coded = DescribeCoded(written);
  auto direct = DescribeDirectly(written);
  if (coded && (!direct || coded->size() < direct->size())) return coded;
  return direct;
}

std::optional<HuffmanWeights> ParseHuffmanWeights(
    std::string_view description) {
  const auto size = HuffmanDescriptionBytes(description);
  if (!size || *size != description.size()) return std::nullopt;
  std::vector<uint8_t> weights;
  weights.reserve(256);
  const bool is_direct = static_cast<uint8_t>(description[0]) > kDirectFlag;
  const bool is_read = is_direct ? ParseDirect(description, weights)
                                 : ParseCoded(description.substr(1), weights);
  return is_read ? Complete(weights) : std::nullopt;
}

std::optional<size_t> HuffmanDescriptionBytes(std::string_view in) {
  if (in.empty()) return std::nullopt;
  const auto head = static_cast<uint8_t>(in[0]);
  const size_t rest =
      head > kDirectFlag ? (size_t{head} - kDirectFlag + 1) / 2 : head;
  if (rest == 0 || in.size() < 1 + rest) return std::nullopt;
  return 1 + rest;
}

}  // namespace holdfast
