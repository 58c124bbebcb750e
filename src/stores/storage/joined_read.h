// ReadJoined: many small ranges of a store with latency, neighbours read as
// one.
//
// Thread-safety: any thread. Ownership: borrows the store; the bytes own what
// was read for them and their neighbours. Units: bytes.
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
  // Gaps up to this are read through.
  uint64_t gap_bytes_max = 1'000'000;
  // A joined read ends here; a longer range is read by itself.
  uint64_t joined_bytes_max = 8 << 20;
  // Bound of the bytes of one batch.
  uint64_t batch_bytes_max = 64 << 20;
};

// The bytes of each range, in the order given. Ranges may overlap.
Result<std::vector<Bytes>> ReadJoined(Store& store,
                                      const std::vector<JoinedRange>& ranges,
                                      const JoinOptions& options = {});

}  // namespace holdfast
