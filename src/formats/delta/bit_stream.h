// A stream of bits; the first bit is the lowest bit of the first byte.
//
// Thread-safety: one thread per object. Ownership: a reader borrows its bytes.
// Errors: a reader returns zeros after its end, and reports it (is_past_end).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ground/base/coding.h"

namespace holdfast {

class BitWriter {
 public:
  // REQUIRES: 0 <= bit_count <= 64; `bits` has no bit set above the lowest
  // `bit_count` bits.
  void Put(uint64_t bits, int bit_count) {
    if (bit_count > 32) {
      Put(bits & 0xffffffff, 32);
      bits >>= 32;
      bit_count -= 32;
    }
    held_ |= bits << held_count_;
    held_count_ += bit_count;
    if (held_count_ >= 32) {
      PutU32Little(out_, static_cast<uint32_t>(held_));
      held_ >>= 32;
      held_count_ -= 32;
    }
  }

  // Returns all bits, padded with zeros to a full byte.
  std::string Finish() {
    for (; held_count_ > 0; held_count_ -= 8) {
      out_.push_back(static_cast<char>(held_));
      held_ >>= 8;
    }
    held_count_ = 0;
    return std::move(out_);
  }

 private:
  std::string out_;
  uint64_t held_ = 0;
  int held_count_ = 0;  // less than 32 between two calls
};

class BitReader {
 public:
  explicit BitReader(std::string_view bytes) : bytes_(bytes) {}

  // REQUIRES: 0 <= bit_count <= 64.
  uint64_t Take(int bit_count) {
    if (bit_count > 32) {
      const uint64_t low = Take(32);
      return low | Take(bit_count - 32) << 32;
    }
    if (held_count_ < bit_count) Fill(bit_count);
    const uint64_t bits = held_ & ((uint64_t{1} << bit_count) - 1);
    held_ >>= bit_count;
    held_count_ -= bit_count;
    return bits;
  }

  // Skips to the next byte of the stream, where a writer finished.
  void Align() {
    held_ >>= held_count_ % 8;
    held_count_ -= held_count_ % 8;
  }

  bool is_past_end() const { return is_past_end_; }
  // Returns true if nothing is left but bits of a byte that was partly read.
  bool is_at_end() const {
    return !is_past_end_ && at_ == bytes_.size() && held_count_ < 8;
  }

 private:
  void Fill(int bit_count) {
    if (bytes_.size() - at_ >= sizeof(uint32_t)) {
      held_ |= uint64_t{LoadLittle<uint32_t>(bytes_.data() + at_)}
               << held_count_;
      at_ += sizeof(uint32_t);
      held_count_ += 32;
      return;
    }
    for (; held_count_ < bit_count; held_count_ += 8) {
      if (at_ == bytes_.size()) {
        is_past_end_ = true;
        held_count_ = 64;
        return;
      }
      held_ |= uint64_t{static_cast<uint8_t>(bytes_[at_++])} << held_count_;
    }
  }

  std::string_view bytes_;
  size_t at_ = 0;
  uint64_t held_ = 0;
  int held_count_ = 0;
  bool is_past_end_ = false;
};

}  // namespace holdfast
