// PieceBuffer: collects the pieces of an object in memory, in any order and
// from any thread, and joins them into one Bytes. The memory store and the
// fault store build their objects with it.
//
// Thread-safety: Add from any thread; Join from one thread while no Add is
// running.
// Ownership: owns copies of the pieces. Units: bytes.
// Errors: ResourceExhausted when memory is short.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "ground/base/bytes.h"
#include "holdfast/status.h"

namespace holdfast {

// Returns one contiguous copy of the pieces. `place` is for messages.
Result<Bytes> JoinPieces(std::span<const std::string_view> pieces,
                         std::string_view place);

class PieceBuffer {
 public:
  // Copies `pieces`, one after the other, to `offset`.
  Status Add(uint64_t offset, std::span<const std::string_view> pieces,
             std::string_view place);
  // Returns the complete object. Bytes that no piece covers are zero.
  Result<Bytes> Join(std::string_view place) const;

 private:
  struct Run {
    uint64_t offset;
    Bytes bytes;
  };

  mutable std::mutex mutex_;
  std::vector<Run> runs_;
  uint64_t byte_count_ = 0;
};

}  // namespace holdfast
