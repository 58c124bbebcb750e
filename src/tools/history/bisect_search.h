// The search itself: the first bad one of a row of steps that are good up to
// some step and bad from there on, some of which cannot be judged.
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
    kNewestIsGood,  // `good` is it
    kOldestIsBad,   // `bad` is it
    kAllSkipped,
    kNoGood,  // `bad` is the newest that was not skipped, and all others were
  };
  Kind kind = Kind::kFound;
  // kFound: the last one known to be good and the first known to be bad; what
  // lies between was skipped.
  size_t good = 0;
  size_t bad = 0;
};

// Asks `probe` of each index once at most: the newest first, then the oldest.
Result<SearchResult> SearchFirstBad(
    size_t count, const std::function<Result<StepVerdict>(size_t)>& probe);

}  // namespace holdfast
