// The data of a report, as the JSON that its page reads.
//
// The JSON is compact, since there may be many leaves. A module is [key,
// [child, ...]]. A leaf is [key, kind, dtype, shape, stored bytes, decoded
// bytes, chunks, chunk shape, codecs, statistics, difference]. Kinds, dtypes
// and codecs are indices into the lists "kinds", "dtypes" and "codecs", or -1
// if the leaf has none. Statistics are 0, or a string that says why they are
// missing, or [zeros, NaNs, infinities, min, max, mean, std, l2, first bin,
// bins]; a bin is a character, '0' for an empty one and 'A' to 'z' for its
// logarithm relative to the largest. The difference is 0, or [what, largest
// absolute error, share of elements]. Numbers are rounded to six digits; null
// means a missing number. "moved" has the names of steps, and the strips
// (moved.h) of all modules and leaves in preorder: the root's, then for each
// child its own and those below it.
//
// Thread-safety: pure functions. Errors: none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/tools/diff.h"
#include "holdfast/tools/stats.h"
#include "tools/report/moved.h"

namespace holdfast {

// Borrowed pointers; null for what was not requested.
struct ReportData {
  const Checkpoint* checkpoint = nullptr;
  const StatsResult* stats = nullptr;
  const VerifyReport* verified = nullptr;
  const DiffResult* diff = nullptr;
  std::string against;          // the path of the other checkpoint
  std::vector<StepInfo> steps;  // of a root; else empty
  const Moved* moved = nullptr;
};

// Returns ASCII text without '<', so that it can be embedded in a script
// element.
std::string ReportJson(const ReportData& data);

// Returns the bins of a histogram in the format above.
std::string BinsText(const MagnitudeHistogram& histogram, int& first_bin);

}  // namespace holdfast
