// RowChecker: compares the bytes of a range of a file, fed from front to back,
// with the rows of `_HOLDFAST_DIGESTS` for it.
//
// A row is checked by its blocks, or by its tail if that is inside the range; a
// row with neither is checked as a whole, if it is inside. Other rows are not
// checked.
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

// The offset after the last byte of the row.
uint64_t EndOf(const ValueDigest& row);
// The block border at or before `offset`, or if `is_behind`, at or after it.
// REQUIRES: the row has blocks, and `offset` is in it or at its end.
uint64_t BlockBorder(const ValueDigest& row, uint64_t block_bytes,
                     uint64_t offset, bool is_behind);

class RowChecker {
 public:
  // `rows` are those that overlap [begin, end), by offset.
  RowChecker(const Store& store, std::string_view key,
             std::span<const ValueDigest> rows, uint64_t block_bytes,
             uint64_t begin, uint64_t end);

  // Whether every byte of some row is needed, and not only its end.
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
