// Retries a read when the checkpoint was replaced while it was being read.
//
// A saver that overwrites a checkpoint exchanges directories, so a concurrent
// reader may see parts of both the old and the new one. The reader then gets
// Unavailable; as long as it has returned nothing to its caller, it can open
// and read again. Open, Load and Verify do so themselves.
//
// Thread-safety: as `read`.
#pragma once

#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

// How often one call reads at most. A reader meets a program that overwrites in
// a loop in about half of its reads, if they take as long as a save.
inline constexpr int kReadsMax = 20;

inline bool WasReplaced(const Status& status) {
  return status.code() == StatusCode::kUnavailable;
}
template <typename T>
bool WasReplaced(const Result<T>& result) {
  return WasReplaced(result.status());
}

// Returns the result of `read`, a Status or Result. `read` opens the checkpoint
// at `path` and reads it, and may be called several times. For a URL it is
// called only once: object stores have their own retries.
template <typename Read>
auto ReadAgainIfReplaced(std::string_view path, const Read& read) {
  const int count_max = path.find("://") == path.npos ? kReadsMax : 1;
  for (int count = 1;; ++count) {
    auto result = read();
    if (!WasReplaced(result) || count >= count_max) return result;
  }
}

}  // namespace holdfast
