// Reading again what another checkpoint took the place of while it was read.
//
// A saver that overwrites exchanges directories, so a reader beside it may see
// some of the old checkpoint and some of the new one. It is told so
// (Unavailable); as long as nobody was given anything it opens and reads again
// before it says so. Open, Load and Verify do that themselves.
//
// Thread-safety: as `read`.
#pragma once

#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

// How often one call reads at most. A program that overwrites in a loop is met
// in half of the reads, if they take as long as a save.
inline constexpr int kReadsMax = 20;

inline bool WasReplaced(const Status& status) {
  return status.code() == StatusCode::kUnavailable;
}
template <typename T>
bool WasReplaced(const Result<T>& result) {
  return WasReplaced(result.status());
}

// The result of `read`, a Status or Result; `read` opens the checkpoint at
// `path` and reads it, and may be called again. For a URL it is called once:
// object stores have retries of their own.
template <typename Read>
auto ReadAgainIfReplaced(std::string_view path, const Read& read) {
  const int count_max = path.find("://") == path.npos ? kReadsMax : 1;
  for (int count = 1;; ++count) {
    auto result = read();
    if (!WasReplaced(result) || count >= count_max) return result;
  }
}

}  // namespace holdfast
