#include "stores/storage/piece_buffer.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "ground/base/status_macros.h"
#include "stores/storage/store.h"

namespace holdfast {
namespace {

Result<Buffer> Allocate(uint64_t byte_count, std::string_view place) {
  Buffer buffer = Buffer::TryAllocate(byte_count);
  if (buffer.size() >= byte_count) return buffer;
  return ResourceExhaustedError("write " + std::string(place) +
                                ": no memory for " +
                                std::to_string(byte_count) + " bytes");
}

}  // namespace

Result<Bytes> JoinPieces(std::span<const std::string_view> pieces,
                         std::string_view place) {
  const uint64_t byte_count = TotalBytes(pieces);
  HF_ASSIGN_OR_RETURN(Buffer buffer, Allocate(byte_count, place));
  char* next = buffer.data();
  for (std::string_view piece : pieces) {
    if (piece.empty()) continue;  // its data() may be null
    std::memcpy(next, piece.data(), piece.size());
    next += piece.size();
  }
  return Bytes(std::move(buffer), byte_count);
}

Status PieceBuffer::Add(uint64_t offset,
                        std::span<const std::string_view> pieces,
                        std::string_view place) {
  HF_RETURN_IF_ERROR(CheckWriteRange(offset, TotalBytes(pieces), place));
  HF_ASSIGN_OR_RETURN(Bytes bytes, JoinPieces(pieces, place));
  if (bytes.empty()) return {};
  std::lock_guard lock(mutex_);
  byte_count_ = std::max(byte_count_, offset + bytes.size());
  runs_.push_back({offset, std::move(bytes)});
  return {};
}

Result<Bytes> PieceBuffer::Join(std::string_view place) const {
  std::lock_guard lock(mutex_);
  if (runs_.size() == 1 && runs_[0].offset == 0) return runs_[0].bytes;
  HF_ASSIGN_OR_RETURN(Buffer buffer, Allocate(byte_count_, place));
  // Bytes that no piece covers are zero, as in a file with holes.
  if (byte_count_ > 0) std::memset(buffer.data(), 0, byte_count_);
  for (const Run& run : runs_) {
    std::memcpy(buffer.data() + run.offset, run.bytes.data(), run.bytes.size());
  }
  return Bytes(std::move(buffer), byte_count_);
}

}  // namespace holdfast
