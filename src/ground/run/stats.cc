#include <algorithm>

#include "holdfast/options.h"

namespace holdfast {

void Stats::Add(const Stats& part) {
  plan_seconds += part.plan_seconds;
  transfer_seconds += part.transfer_seconds;
  sync_seconds += part.sync_seconds;
  commit_seconds += part.commit_seconds;
  total_seconds += part.total_seconds;
  decoded_bytes += part.decoded_bytes;
  stored_bytes += part.stored_bytes;
  chunk_count += part.chunk_count;
  memory_bytes_peak = std::max(memory_bytes_peak, part.memory_bytes_peak);
  mapped_bytes += part.mapped_bytes;
  fingerprint_count += part.fingerprint_count;
  device_decoded_bytes += part.device_decoded_bytes;
}

}  // namespace holdfast
