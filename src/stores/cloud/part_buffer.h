// PartBuffer: the memory of one part of an upload while it is filled, in blocks
// that are made when a byte of theirs is written.
//
// Thread-safety: one thread at a time, but for the bytes of blocks: writers
// copy into different ranges of them at once. Ownership: blocks are shared with
// those who copy. Units: bytes. Errors: none.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "ground/base/bytes.h"

namespace holdfast {

class PartBuffer {
 public:
  static constexpr uint64_t kBlockBytes = uint64_t{1} << 20;

  PartBuffer() = default;
  explicit PartBuffer(uint64_t byte_count);

  uint64_t byte_count() const { return byte_count_; }
  bool is_full() const { return filled_bytes_ == byte_count_; }
  // Bytes that all its blocks hold together.
  uint64_t held_bytes() const { return held_bytes_; }

  uint64_t block_bytes(uint64_t offset) const;
  // The block that has the byte at `offset`; null: none yet.
  std::shared_ptr<Buffer> BlockAt(uint64_t offset) const;
  void SetBlock(uint64_t offset, std::shared_ptr<Buffer> block);
  // These bytes are written; false when some of them were before.
  [[nodiscard]] bool MarkFilled(uint64_t offset, uint64_t byte_count);
  // Ends the part here; bytes that nobody wrote become zero.
  void Cut(uint64_t byte_count);

  // The bytes in order. REQUIRES: is_full(). Valid while the blocks live.
  std::vector<std::string_view> Pieces() const;

 private:
  void FillWithZeros(uint64_t begin, uint64_t end);

  uint64_t byte_count_ = 0;
  uint64_t filled_bytes_ = 0;
  uint64_t held_bytes_ = 0;
  std::vector<std::shared_ptr<Buffer>> blocks_;
  std::map<uint64_t, uint64_t> filled_;  // begin -> end, none touch
};

}  // namespace holdfast
