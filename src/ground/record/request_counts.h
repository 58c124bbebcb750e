// RemoteCounters that several threads may add to, and the process's totals.
//
// Thread-safety: any thread. Units: bytes.
#pragma once

#include <atomic>
#include <cstdint>

#include "holdfast/tools/remote.h"

namespace holdfast {

struct RequestCounts {
  std::atomic<uint64_t> requests{0}, attempts{0}, retries{0}, throttled{0},
      hedges{0}, hedge_bytes{0}, connections{0}, sent_bytes{0},
      received_bytes{0};

  RemoteCounters Read() const;
  // Returns the totals over all clients that this process has had.
  static RequestCounts& OfProcess();
};

}  // namespace holdfast
