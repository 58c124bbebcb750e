// Digests of many leaves on many threads.
//
// Thread-safety: `done` is called on worker threads, one call at a time.
// Ownership: borrows everything for the call; joins its threads.
// Units: bytes of decoded tensors.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/status.h"

namespace holdfast::cli {

struct DigestOptions {
  int thread_count = 0;  // 0: one per available CPU
  // Leaves at work together; one larger than this is at work by itself.
  uint64_t ram_bytes_max = uint64_t{256} << 20;
  const std::atomic<bool>* cancel = nullptr;
  // Decoded bytes of the leaves finished so far.
  std::function<void(uint64_t done_bytes)> done;
};

// One result for each index in `leaves`, in their order. A failure of one leaf
// stops none but itself; what cancel prevented is Cancelled.
std::vector<Result<std::string>> DigestLeaves(const Checkpoint& checkpoint,
                                              std::span<const size_t> leaves,
                                              const DigestOptions& options);

}  // namespace holdfast::cli
