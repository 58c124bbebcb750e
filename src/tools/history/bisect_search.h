// The search of bisect: finds the first bad step in a sequence that is good up
// to some step and bad after it. Some of the steps cannot be judged.
//
// Thread-safety: pure apart from what `probe` does. Errors: those of `probe`.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "holdfast/tools/history.h"

namespace holdfast {

struct SearchResult {
  enum class Kind : uint8_t {
    kFound,
    kNewestIsGood,  // `good` is the newest
    kOldestIsBad,   // `bad` is the oldest
    kAllSkipped,
    kNoGood,  // `bad` is the newest step that was not skipped; the rest were
  };
  Kind kind = Kind::kFound;
  // With kFound, the last step known to be good and the first known to be bad;
  // the steps between them were skipped.
  size_t good = 0;
  size_t bad = 0;
};

// Calls `probe` at most once for each index: the newest first, then the oldest.
Result<SearchResult> SearchFirstBad(
    size_t count, const std::function<Result<StepVerdict>(size_t)>& probe);

}  // namespace holdfast
