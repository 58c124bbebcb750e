// The data that a report shows, as the JSON that its page reads.
//
// Compact, since there may be many leaves: a module is [key, [child, ...]], a
// leaf [key, kind, dtype, shape, stored bytes, decoded bytes, chunks, chunk
// shape, codecs, statistics, difference]. Kinds, dtypes and codecs are numbers
// in the lists "kinds", "dtypes" and "codecs", -1 where it has none.
// Statistics: 0, or a text why they are missing, or [zeros, NaNs, infinities,
// min, max, mean, std, l2, first bin, bins]; a bin is a character, '0' for none
// and 'A' to 'z' for its logarithm beside the largest's. Difference: 0, or
// [what, largest absolute error, share of elements]. Numbers are rounded to six
// digits; null stands for a missing number. "moved" has names of steps, and
// strips (moved.h) of the root, then of each child with those below it, and so
// on.
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

// Borrowed; null for what was not asked for.
struct ReportData {
  const Checkpoint* checkpoint = nullptr;
  const StatsResult* stats = nullptr;
  const VerifyReport* verified = nullptr;
  const DiffResult* diff = nullptr;
  std::string against;          // the path of the other checkpoint
  std::vector<StepInfo> steps;  // of a root; else empty
  const Moved* moved = nullptr;
};

// ASCII, without '<': it may stand in a script element.
std::string ReportJson(const ReportData& data);

// The bins of a histogram, as above.
std::string BinsText(const MagnitudeHistogram& histogram, int& first_bin);

}  // namespace holdfast
