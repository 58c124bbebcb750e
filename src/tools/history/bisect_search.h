// The search behind `bisect`: finds the first bad step of a sequence that is
// good up to some step and bad after it. Some steps may be impossible to judge.
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

// Calls `probe` at most once for each index: first for the newest step, then
// for the oldest, then in between.
Result<SearchResult> SearchFirstBad(
    size_t count, const std::function<Result<StepVerdict>(size_t)>& probe);

}  // namespace holdfast
