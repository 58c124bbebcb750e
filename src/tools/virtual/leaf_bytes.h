// LeafBytes: the elements of an opened checkpoint's leaves as bytes in C order,
// from any offset on.
//
// A leaf is read in blocks of whole rows of its chunks, so that reads that
// follow each other decode a chunk once; the blocks are kept for a while. A
// chunk that is larger than a block is decoded again for each block of it.
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

// How a leaf is cut: `rows` of axis `axis`, at one index of each axis before
// it. A pure function of its arguments, apart for its tests.
struct LeafBlocks {
  size_t axis = 0;
  int64_t row_count = 1;    // of a block; the last of an axis may have fewer
  uint64_t row_bytes = 1;   // of one row of `axis`
  uint64_t axis_bytes = 1;  // of the whole axis, at one index of those before
  uint64_t blocks_per_axis = 1;

  uint64_t block_bytes() const { return row_count * row_bytes; }
};
// Blocks of about `bytes_target` and at most `bytes_max` bytes (of one element,
// if that is more), of whole chunks where these are not larger. REQUIRES: an
// array with elements, whose chunk shape is empty or of its rank.
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
  // For others that make blocks of this checkpoint; `kind` 0 is the leaves'.
  KeptBlocks& blocks() const { return *blocks_; }
  static KeptBlocks::Key KeyOf(uint32_t kind, uint32_t number, uint64_t block) {
    return {uint64_t{kind} << 32 | number, block};
  }
  // The largest that is kept.
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
