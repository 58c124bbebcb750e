#include "orbax/handlers/limited_runs.h"

#include "ground/base/status_macros.h"

namespace holdfast {

Status ForEachRunBelow(LimitInFlightBytes* limiter, size_t count,
                       const std::function<int64_t(size_t item)>& bytes_of,
                       const std::function<Status(size_t, size_t)>& fn) {
  if (limiter == nullptr) return fn(0, count);
  size_t last = 0;
  for (size_t first = 0; first < count; first = last) {
    int64_t byte_count = bytes_of(first);
    for (last = first + 1; last < count; ++last) {
      const int64_t more_bytes = bytes_of(last);
      if (more_bytes >= limiter->bytes_max() - byte_count) break;
      byte_count += more_bytes;
    }
    HF_RETURN_IF_ERROR(limiter->WaitForBytes(byte_count));
    const Status done = fn(first, last);
    limiter->ReleaseBytes(byte_count);
    HF_RETURN_IF_ERROR(done);
  }
  return Status();
}

}  // namespace holdfast
