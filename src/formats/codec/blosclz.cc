#include "formats/codec/blosclz.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

#include "ground/base/coding.h"

namespace holdfast {
namespace {

constexpr size_t kLiteralsMax = 32;
// The distance of a near match takes two bytes. The distance of a far match
// takes four.
constexpr size_t kNearDistanceMax = 8191;
constexpr size_t kDistanceMax = kNearDistanceMax + 65535;
constexpr size_t kMatchBytesMin = 5;
constexpr size_t kFarMatchBytesMin = 7;
constexpr size_t kLastLiterals = 12;
constexpr int kHashBits = 13;
constexpr uint8_t kFirstTokenFlag = 1 << 5;

class BlosclzWriter {
 public:
  explicit BlosclzWriter(std::span<char> out) : out_(out) {}

  void Literals(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::string_view run = bytes.substr(0, kLiteralsMax);
      Byte(run.size() - 1);
      if (out_.size() - size_ < run.size()) is_full_ = true;
      if (is_full_) return;
      std::memcpy(out_.data() + size_, run.data(), run.size());
      size_ += run.size();
      bytes.remove_prefix(run.size());
    }
  }

  // REQUIRES: byte_count >= 3, 1 <= distance <= kDistanceMax.
  void Match(size_t byte_count, size_t distance) {
    const bool is_far = distance > kNearDistanceMax;
    const size_t bias = distance - 1;
    const size_t high = is_far ? 31 : bias >> 8;
    if (byte_count < 9) {
      Byte((byte_count - 2) << 5 | high);
    } else {
      Byte(7 << 5 | high);
      size_t left = byte_count - 9;
      for (; left >= 255; left -= 255) Byte(255);
      Byte(left);
    }
    Byte(is_far ? 255 : bias & 0xFF);
    if (!is_far) return;
    Byte((bias - kNearDistanceMax) >> 8);
    Byte((bias - kNearDistanceMax) & 0xFF);
  }

  // Returns 0 when the stream does not fit.
  size_t Finish() {
    if (is_full_ || size_ == 0) return 0;
    out_[0] = static_cast<char>(out_[0] | kFirstTokenFlag);
    return size_;
  }

  bool is_full() const { return is_full_; }

 private:
  void Byte(size_t value) {
    if (size_ == out_.size()) {
      is_full_ = true;
    } else {
      out_[size_++] = static_cast<char>(value);
    }
  }

  const std::span<char> out_;
  size_t size_ = 0;
  bool is_full_ = false;
};

size_t CommonBytes(std::string_view in, size_t a, size_t b, size_t end) {
  size_t count = 0;
  while (b + count < end && in[a + count] == in[b + count]) ++count;
  return count;
}

struct BlosclzMatch {
  size_t byte_count;
  size_t distance;
};

class BlosclzReader {
 public:
  BlosclzReader(std::string_view in, std::span<char> out)
      : in_(in), out_(out) {}

  bool Read() {
    if (in_.empty()) return out_.empty();
    // The first token is always literals; its upper bits are flags.
    uint8_t token = Next() % kLiteralsMax;
    while (true) {
      if (token < kLiteralsMax ? !CopyLiterals(token + 1u)
                               : !CopyMatch(MatchOf(token))) {
        return false;
      }
      if (at_ == in_.size()) return done_ == out_.size();
      token = Next();
    }
  }

 private:
  bool Has(size_t byte_count) const { return in_.size() - at_ >= byte_count; }
  uint8_t Next() { return static_cast<uint8_t>(in_[at_++]); }

  bool CopyLiterals(size_t byte_count) {
    if (!Has(byte_count) || out_.size() - done_ < byte_count) return false;
    std::memcpy(out_.data() + done_, in_.data() + at_, byte_count);
    at_ += byte_count;
    done_ += byte_count;
    return true;
  }

  std::optional<BlosclzMatch> MatchOf(uint8_t token) {
    size_t byte_count = (token >> 5) + 2u;
    if (token >> 5 == 7) {
      uint8_t more = 255;
      while (more == 255) {
        if (!Has(1)) return std::nullopt;
        more = Next();
        byte_count += more;
      }
    }
    if (!Has(1)) return std::nullopt;
    // The distance is checked against the number of decoded bytes only
    // (CopyMatch), so a damaged distance cannot reach outside `out`.
    const uint8_t low = Next();
    const size_t bias = (token & 31u) << 8 | low;
    if (bias < kNearDistanceMax) return BlosclzMatch{byte_count, bias + 1};
    if (!Has(2)) return std::nullopt;
    const size_t high = Next();
    return BlosclzMatch{byte_count,
                        (high << 8 | Next()) + kNearDistanceMax + 1};
  }

  bool CopyMatch(const std::optional<BlosclzMatch>& match) {
    if (!match || match->distance > done_ ||
        out_.size() - done_ < match->byte_count) {
      return false;
    }
    char* const to = out_.data() + done_;
    const char* const from = to - match->distance;
    if (match->distance >= match->byte_count) {
      std::memcpy(to, from, match->byte_count);
    } else {
      // The match overlaps its output: "abab" is 2 bytes repeated, byte by
      // byte.
      for (size_t i = 0; i < match->byte_count; ++i) to[i] = from[i];
    }
    done_ += match->byte_count;
    return true;
  }

  const std::string_view in_;
  const std::span<char> out_;
  size_t at_ = 0;
  size_t done_ = 0;
};

}  // namespace

size_t CompressBlosclz(std::string_view in, std::span<char> out) {
  if (in.size() <= kLastLiterals) return 0;
  BlosclzWriter writer(out);
  std::array<uint32_t, size_t{1} << kHashBits> last_at{};  // by hash
  // The last bytes are literals, as the format requires, so that a reader may
  // copy word by word.
  const size_t end = in.size() - kLastLiterals;
  size_t literals_at = 0;
  size_t at = 1;  // the stream begins with a literal
  while (at < end && !writer.is_full()) {
    const uint32_t word = LoadLittle<uint32_t>(in.data() + at);
    uint32_t& entry = last_at[word * 2654435761u >> (32 - kHashBits)];
    const size_t candidate = entry;
    entry = static_cast<uint32_t>(at);
    // Entries start at 0, so a hash that never occurred gives a candidate at 0.
    // The byte comparison rejects it.
    const size_t distance = at - candidate;
    const size_t byte_count =
        distance <= kDistanceMax ? CommonBytes(in, candidate, at, end) : 0;
    if (byte_count <
        (distance > kNearDistanceMax ? kFarMatchBytesMin : kMatchBytesMin)) {
      ++at;
      continue;
    }
    writer.Literals(in.substr(literals_at, at - literals_at));
    writer.Match(byte_count, distance);
    at += byte_count;
    literals_at = at;
  }
  writer.Literals(in.substr(literals_at));
  return writer.Finish();
}

bool DecompressBlosclz(std::string_view in, std::span<char> out) {
  return BlosclzReader(in, out).Read();
}

}  // namespace holdfast
