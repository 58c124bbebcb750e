// Batches of chunks to process concurrently: large enough for all threads, and
// small enough that the same memory is reused (touching new memory took as long
// as everything else).
//
// Thread-safety: pure functions. Units: bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "ground/base/status_macros.h"
#include "holdfast/options.h"

namespace holdfast {

inline constexpr uint64_t kBatchBytesMax = uint64_t{64} << 20;

// Calls do_batch(batch) for runs of items whose byte_counts add up to at most
// kBatchBytesMax and to half of the call's budget; a larger item is a batch by
// itself.
template <typename Item, typename DoBatch>
Status ForEachBatch(std::span<Item> items, const RunOptions& options,
                    DoBatch do_batch) {
  const uint64_t budget = options.memory_bytes;
  const uint64_t bytes_max =
      budget == 0 ? kBatchBytesMax : std::min(kBatchBytesMax, budget / 2);
  for (size_t first = 0; first < items.size();) {
    size_t end = first;
    uint64_t bytes = 0;
    do {
      bytes += items[end++].byte_count;
    } while (end < items.size() && bytes + items[end].byte_count <= bytes_max);
    HF_RETURN_IF_ERROR(do_batch(items.subspan(first, end - first)));
    first = end;
  }
  return Status();
}

}  // namespace holdfast
