#include "engine/check/row_checker.h"

#include <algorithm>
#include <limits>

#include "engine/format/sidecar_text.h"
#include "ground/base/crc32c.h"
#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

constexpr uint64_t kTailBytes = sizeof(uint32_t);

// Returns those of `bytes` that the row's CRC covers: for a node, all but the
// CRC at its end.
std::string_view Summed(const ValueDigest& row, uint64_t offset,
                        std::string_view bytes) {
  if (!row.is_node()) return bytes;
  const uint64_t end = EndOf(row) - kTailBytes;
  return bytes.substr(0, offset < end ? end - offset : 0);
}

}  // namespace

uint64_t EndOf(const ValueDigest& row) {
  // A row is read from a file, so its end must not overflow.
  const uint64_t room = std::numeric_limits<uint64_t>::max() - row.offset;
  return row.offset + std::min(room, row.byte_count);
}

uint64_t BlockBorder(const ValueDigest& row, uint64_t block_bytes,
                     uint64_t offset, bool is_behind) {
  const uint64_t in_row = offset - row.offset;
  const uint64_t rest = in_row % block_bytes;
  if (rest == 0 || in_row == row.byte_count) return offset;
  if (!is_behind) return offset - rest;
  return offset + std::min(block_bytes - rest, row.byte_count - in_row);
}

RowChecker::RowChecker(const Store& store, std::string_view key,
                       std::span<const ValueDigest> rows, uint64_t block_bytes,
                       uint64_t begin, uint64_t end)
    : store_(store),
      key_(key),
      rows_(rows),
      block_bytes_(block_bytes),
      offset_(begin),
      states_(rows.size()) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const ValueDigest& row = rows[i];
    const bool has_end = EndOf(row) <= end;
    const bool is_inside = row.offset >= begin && has_end;
    // If the read covers only a part of a row, the row can be checked only by
    // its blocks or its tail.
    if (row.tail) {
      const bool has_tail = has_end && EndOf(row) - kTailBytes >= begin;
      states_[i].way = has_tail ? Way::kTail : Way::kNone;
    } else if (!row.block_crcs.empty()) {
      states_[i].way = Way::kBlocks;
    } else if (is_inside) {
      states_[i].way = Way::kWhole;
    }
    const Way way = states_[i].way;
    sums_ = sums_ || way == Way::kWhole || way == Way::kBlocks;
  }
}

Status RowChecker::Feed(std::string_view bytes) {
  const uint64_t end = offset_ + bytes.size();
  for (size_t i = first_; i < rows_.size() && rows_[i].offset < end; ++i) {
    const ValueDigest& row = rows_[i];
    const uint64_t from = std::max(offset_, row.offset);
    const uint64_t to = std::min(end, EndOf(row));
    if (from < to) {
      HF_RETURN_IF_ERROR(FeedRow(row, states_[i], from,
                                 bytes.substr(from - offset_, to - from)));
    }
    // Rows that end here are finished.
    if (i == first_ && EndOf(row) <= end) ++first_;
  }
  offset_ = end;
  return Status();
}

Status RowChecker::FeedRow(const ValueDigest& row, State& state,
                           uint64_t offset, std::string_view bytes) {
  const uint64_t end = offset + bytes.size();
  switch (state.way) {
    case Way::kNone:
      return Status();
    case Way::kBlocks:
      return FeedBlocks(row, state, offset, bytes);
    case Way::kWhole:
      state.crc = ExtendCrc32c(state.crc, Summed(row, offset, bytes));
      return end == EndOf(row) ? Compare(row.offset, state.crc, row.crc32c)
                               : Status();
    case Way::kTail:
      for (uint64_t at = std::max(offset, EndOf(row) - kTailBytes); at < end;
           ++at) {
        const uint32_t byte = static_cast<uint8_t>(bytes[at - offset]);
        state.tail = state.tail >> 8 | byte << 24;
      }
      return end == EndOf(row) ? Compare(row.offset, state.tail, *row.tail)
                               : Status();
  }
  return Status();
}

Status RowChecker::FeedBlocks(const ValueDigest& row, State& state,
                              uint64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const uint64_t number = (offset - row.offset) / block_bytes_;
    const uint64_t block = row.offset + number * block_bytes_;
    // The border after the next byte: at the start of a block, the border for
    // `offset` would be `offset` itself.
    const uint64_t block_end =
        BlockBorder(row, block_bytes_, offset + 1, /*is_behind=*/true);
    const std::string_view part = bytes.substr(0, block_end - offset);
    state.crc = ExtendCrc32c(state.crc, part);
    offset += part.size();
    bytes.remove_prefix(part.size());
    if (offset < block_end) break;
    HF_RETURN_IF_ERROR(Compare(block, state.crc, row.block_crcs[number]));
    state.crc = 0;
  }
  return Status();
}

Status RowChecker::Compare(uint64_t offset, uint32_t got, uint32_t want) const {
  if (got == want) return Status();
  std::string message = store_.Describe(key_) + " at " +
                        std::to_string(offset) +
                        ": bytes differ from when they were saved (got "
                        "checksum ";
  AppendCrcHex(message, got);
  message += ", want ";
  AppendCrcHex(message, want);
  return DataLossError(message + ")");
}

}  // namespace holdfast
