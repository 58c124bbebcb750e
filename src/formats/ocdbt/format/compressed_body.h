// One zstd frame: the compressed body of an OCDBT object.
//
// Thread-safety: pure functions. Ownership: inputs are borrowed.
// Units: bytes.
// Errors: InvalidArgument for a damaged or truncated frame, DataLoss for a
// body above the limit.
#pragma once

#include <cstdint>
#include <string_view>

#include "ground/base/bytes.h"
#include "holdfast/status.h"

namespace holdfast::ocdbt {

struct DecompressedFrame {
  Bytes body;
  // Input after the end of the first frame. A valid object has none.
  uint64_t unread_byte_count = 0;
};

// Decodes the first frame of `frame`; a skippable frame counts as an empty
// frame. Window sizes up to 128 MiB are accepted (level 22 declares that much).
Result<DecompressedFrame> DecompressFrame(std::string_view frame,
                                          uint64_t body_bytes_max);

// Returns DataLoss if a body of this size exceeds the limit.
Status CheckBodyBytes(uint64_t byte_count, uint64_t byte_count_max);

// Returns the room that CompressFrame needs for a body of this size.
uint64_t CompressedBytesMax(uint64_t body_byte_count);

// Writes one frame of `body` to `target` (with room for CompressedBytesMax
// bytes) and returns its size. `level` is zstd's; 0 means zstd's default.
Result<uint64_t> CompressFrame(std::string_view body, int level, char* target,
                               uint64_t target_byte_count);

}  // namespace holdfast::ocdbt
