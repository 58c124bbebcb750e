// RowChecker: compares the bytes of a range of a file, which come front to
// back, with the rows of `_HOLDFAST_DIGESTS` about it.
//
// A row is checked by its blocks, or by its tail, if that is inside the range;
// one that has neither as a whole, if it lies inside. Other rows are not
// judged.
// Thread-safety: one thread. Ownership: borrows rows and the store.
// Units: bytes; offsets in the file.
// Errors: DataLoss with file, offset and both checksums.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/format/digest_file.h"
#include "holdfast/status.h"
#include "stores/storage/store.h"

namespace holdfast {

// Behind the last byte of the row.
uint64_t EndOf(const ValueDigest& row);
// The border of a block at or before `offset`, or at or behind it. REQUIRES:
// the row has blocks, and `offset` is in it or at its end.
uint64_t BlockBorder(const ValueDigest& row, uint64_t block_bytes,
                     uint64_t offset, bool is_behind);

class RowChecker {
 public:
  // `rows`: those that reach into [begin, end), by offset.
  RowChecker(const Store& store, std::string_view key,
             std::span<const ValueDigest> rows, uint64_t block_bytes,
             uint64_t begin, uint64_t end);

  // Whether every byte of some row counts, and not only where it ends.
  bool sums() const { return sums_; }
  // The next bytes of the range.
  Status Feed(std::string_view bytes);

 private:
  enum class Way : uint8_t { kNone, kWhole, kBlocks, kTail };
  struct State {
    Way way = Way::kNone;
    uint32_t crc = 0;
    uint32_t tail = 0;
  };

  Status FeedRow(const ValueDigest& row, State& state, uint64_t offset,
                 std::string_view bytes);
  Status FeedBlocks(const ValueDigest& row, State& state, uint64_t offset,
                    std::string_view bytes);
  Status Compare(uint64_t offset, uint32_t got, uint32_t want) const;

  const Store& store_;
  const std::string_view key_;
  const std::span<const ValueDigest> rows_;
  const uint64_t block_bytes_;
  uint64_t offset_;
  bool sums_ = false;
  size_t first_ = 0;  // rows before it have ended
  std::vector<State> states_;
};

}  // namespace holdfast
