// LeafBytes: reads the elements of an opened checkpoint's leaves as bytes in C
// order, from any offset.
//
// A leaf is read in blocks of complete rows of its chunks, which are cached, so
// that sequential reads decode each chunk once. A chunk that is larger than a
// block is decoded again for each of its blocks.
//
// Thread-safety: any thread. Ownership: shares the checkpoint and the blocks.
// Units: bytes. Errors: those of Checkpoint::ReadInto.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "holdfast/checkpoint.h"
#include "tools/virtual/kept_blocks.h"

namespace holdfast {

// How a leaf is cut into blocks. Each block has `row_count` indices of axis
// `axis`, and one index of each axis before it.
struct LeafBlocks {
  size_t axis = 0;
  int64_t row_count = 1;    // of a block; the last on an axis may have fewer
  uint64_t row_bytes = 1;   // of one row of `axis`
  uint64_t axis_bytes = 1;  // of the complete axis, per index of those before
  uint64_t blocks_per_axis = 1;

  uint64_t block_bytes() const { return row_count * row_bytes; }
};
// Cuts a leaf into blocks of about `bytes_target` and at most `bytes_max` bytes
// (or one element, if that is larger). Blocks consist of complete chunks if
// these fit. REQUIRES: an array with elements, whose chunk shape is empty or of
// its rank.
LeafBlocks CutLeaf(const Shape& shape, const Shape& chunk_shape,
                   size_t element_bytes, uint64_t bytes_target,
                   uint64_t bytes_max);

class LeafBytes {
 public:
  LeafBytes(std::shared_ptr<const Checkpoint> checkpoint, const RunOptions& run,
            uint64_t kept_bytes_max);

  // REQUIRES: an array or scalar leaf, and a range inside its elements.
  Status ReadInto(size_t leaf, uint64_t offset, std::span<char> target) const;

  const Checkpoint& checkpoint() const { return *checkpoint_; }
  // Returns the cache. Other code may use it for blocks of this checkpoint,
  // under keys of KeyOf. Kind 0 is reserved for leaves.
  KeptBlocks& blocks() const { return *blocks_; }
  static KeptBlocks::Key KeyOf(uint32_t kind, uint32_t number, uint64_t block) {
    return {uint64_t{kind} << 32 | number, block};
  }
  // Returns the size of the largest block that is kept.
  uint64_t block_bytes_max() const { return block_bytes_max_; }
  const RunOptions& run() const { return run_; }

 private:
  Status ReadBlock(size_t leaf, const LeafBlocks& cut, uint64_t number,
                   std::span<char> target) const;

  std::shared_ptr<const Checkpoint> checkpoint_;
  RunOptions run_;
  uint64_t block_bytes_max_;
  std::unique_ptr<KeptBlocks> blocks_;
};

}  // namespace holdfast
