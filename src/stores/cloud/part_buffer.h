// PartBuffer: the memory of one part of an upload while the part is filled. It
// consists of blocks that are allocated when one of their bytes is written.
//
// Thread-safety: one thread at a time, except that several threads may copy
// into different ranges of the blocks' bytes concurrently. Ownership: blocks
// are shared with the threads that copy. Units: bytes. Errors: none.
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
  // The total size of the allocated blocks.
  uint64_t held_bytes() const { return held_bytes_; }

  uint64_t block_bytes(uint64_t offset) const;
  // Returns the block that holds the byte at `offset`, or null if it is not
  // allocated yet.
  std::shared_ptr<Buffer> BlockAt(uint64_t offset) const;
  void SetBlock(uint64_t offset, std::shared_ptr<Buffer> block);
  // Marks these bytes as written. Returns false if some of them already were.
  [[nodiscard]] bool MarkFilled(uint64_t offset, uint64_t byte_count);
  // Ends the part after `byte_count` bytes. Unwritten bytes become zero.
  void Cut(uint64_t byte_count);

  // Returns the bytes in order. They are valid while the blocks live. REQUIRES:
  // is_full().
  std::vector<std::string_view> Pieces() const;

 private:
  void FillWithZeros(uint64_t begin, uint64_t end);

  uint64_t byte_count_ = 0;
  uint64_t filled_bytes_ = 0;
  uint64_t held_bytes_ = 0;
  std::vector<std::shared_ptr<Buffer>> blocks_;
  std::map<uint64_t, uint64_t> filled_;  // begin -> end; ranges never touch
};

}  // namespace holdfast
