// ReadJoined reads many small ranges from a store with latency. It joins
// neighboring ranges into one read.
//
// Thread-safety: any thread. Ownership: borrows the store; each result shares
// the memory of its joined read. Units: bytes.
// Errors: those of the store's ReadBatch; ResourceExhausted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stores/storage/store.h"

namespace holdfast {

struct JoinedRange {
  std::string key;
  uint64_t offset = 0;
  uint64_t byte_count = 0;
};

struct JoinOptions {
  // Gaps of at most this size between two ranges are read as well.
  uint64_t gap_bytes_max = 1'000'000;
  // The largest joined read. A longer range is read separately.
  uint64_t joined_bytes_max = 8 << 20;
  // Bounds the bytes of one batch.
  uint64_t batch_bytes_max = 64 << 20;
};

// Returns the bytes of each range, in the given order. Ranges may overlap.
Result<std::vector<Bytes>> ReadJoined(Store& store,
                                      const std::vector<JoinedRange>& ranges,
                                      const JoinOptions& options = {});

}  // namespace holdfast
