// Divides a conversion's memory budget. Half is for elements that were read and
// wait to be written, an eighth for reading, a quarter for writing. The rest is
// a reserve for memory that nothing counts.
//
// Thread-safety: a value. Units: bytes; 0 means no bound.
#pragma once

#include <algorithm>
#include <cstdint>

#include "holdfast/options.h"

namespace holdfast {

struct Budgets {
  uint64_t waiting_bytes = 0;
  uint64_t read_bytes = 0;
  uint64_t write_bytes = 0;

  explicit Budgets(uint64_t bytes_max) {
    constexpr uint64_t kUnboundedWaitingBytes = uint64_t{1} << 30;
    waiting_bytes = bytes_max == 0 ? kUnboundedWaitingBytes : bytes_max / 2;
    if (bytes_max == 0) return;
    read_bytes = std::max<uint64_t>(1, bytes_max / 8);
    write_bytes = std::max<uint64_t>(1, bytes_max / 4);
  }

  // Returns the options for one pass over the source.
  RunOptions ReadOptions(const RunOptions& run) const {
    return {.threads = run.threads,
            .memory_bytes = read_bytes,
            .cancel = run.cancel};
  }
};

}  // namespace holdfast
