// Computes the digests of many leaves on many threads.
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
  int threads = 0;  // 0: one per available CPU
  // Limits the memory of the leaves in progress at a time. A leaf that is
  // larger is processed by itself.
  uint64_t ram_bytes_max = uint64_t{256} << 20;
  const std::atomic<bool>* cancel = nullptr;
  // Called with the decoded bytes of the leaves finished so far.
  std::function<void(uint64_t done_bytes)> done;
};

// Returns one result for each index in `leaves`, in their order. A leaf's
// failure does not stop the others. The result is Cancelled for leaves that
// were not reached before a cancellation.
std::vector<Result<std::string>> DigestLeaves(const Checkpoint& checkpoint,
                                              std::span<const size_t> leaves,
                                              const DigestOptions& options);

}  // namespace holdfast::cli
