// When a run had saved what: from which moment on which checkpoints must last.
//
// Pure, given what was listed after each change. Thread-safety: values.
#pragma once

#include <string>
#include <vector>

#include "holdfast/tools/prove.h"
#include "tools/powerloss/crash_states.h"
#include "tools/prove/listing.h"
#include "tools/prove/tracer.h"

namespace holdfast {

// The saves that had finished when so many changes were made.
struct SavePoint {
  size_t prefix = 0;
  Listing saved;  // none of them damaged
};

// In order, the first before all changes and the last after them: `listed[i]`
// is what was there after i of the record's changes. A checkpoint is also saved
// when the file or directory is made that becomes the next one.
std::vector<SavePoint> SavePoints(const DiskRecord& record,
                                  const std::vector<TraceMark>& marks,
                                  const std::vector<Listing>& listed);

struct CrashFinding {
  CrashProblem problem = CrashProblem::kLost;
  std::string checkpoint;
  std::string detail;
};

// The findings about a state that was found after `prefix` changes, at most one
// finding a checkpoint.
std::vector<CrashFinding> JudgeListing(const Listing& found, size_t prefix,
                                       const std::vector<SavePoint>& points,
                                       const std::vector<Listing>& listed);

}  // namespace holdfast
