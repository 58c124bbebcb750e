// Retries a read when the checkpoint was replaced while it was being read.
//
// A save that overwrites a checkpoint exchanges directories, so a concurrent
// reader may see parts of both the old and the new checkpoint. It then gets
// Unavailable, and can open the checkpoint and read again if it has not
// returned anything to its caller yet. Open, Load and Verify do this
// themselves.
//
// Thread-safety: that of `read`.
#pragma once

#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

// The most attempts in one call. If a program overwrites the checkpoint in a
// loop, and a read takes as long as a save, about half of all attempts fail.
inline constexpr int kReadsMax = 20;

inline bool WasReplaced(const Status& status) {
  return status.code() == StatusCode::kUnavailable;
}
template <typename T>
bool WasReplaced(const Result<T>& result) {
  return WasReplaced(result.status());
}

// Calls `read`, which opens the checkpoint at `path` and reads it, until it
// succeeds or fails for another reason, at most kReadsMax times. Returns its
// last result, a Status or Result. For a URL, calls it only once: object stores
// have their own retries.
template <typename Read>
auto ReadAgainIfReplaced(std::string_view path, const Read& read) {
  const int count_max = path.find("://") == path.npos ? kReadsMax : 1;
  for (int count = 1;; ++count) {
    auto result = read();
    if (!WasReplaced(result) || count >= count_max) return result;
  }
}

}  // namespace holdfast
