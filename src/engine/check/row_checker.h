// RowChecker: compares a range of a file with its rows in `_HOLDFAST_DIGESTS`.
// The caller feeds the bytes of the range from front to back.
//
// A row with blocks is checked block by block. A row with a tail is checked by
// the tail, if the tail is inside the range. A row with neither is checked as a
// whole, if all of it is inside the range. Other rows are not checked.
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

// Returns the offset after the last byte of the row.
uint64_t EndOf(const ValueDigest& row);
// Returns the block border at or before `offset`; with `is_behind`, the border
// at or after it.
// REQUIRES: the row has blocks, and `offset` is in it or at its end.
uint64_t BlockBorder(const ValueDigest& row, uint64_t block_bytes,
                     uint64_t offset, bool is_behind);

class RowChecker {
 public:
  // `rows` are the rows that overlap [begin, end), by offset.
  RowChecker(const Store& store, std::string_view key,
             std::span<const ValueDigest> rows, uint64_t block_bytes,
             uint64_t begin, uint64_t end);

  // Returns whether every byte of some row is needed, rather than only its end.
  bool sums() const { return sums_; }
  // Checks the next bytes of the range.
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
  size_t first_ = 0;  // rows before this one have ended
  std::vector<State> states_;
};

}  // namespace holdfast
