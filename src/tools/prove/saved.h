// Finds the moments at which the saves of a run had finished, after which their
// checkpoints must survive.
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

// The saves that had finished after `prefix` changes.
struct SavePoint {
  size_t prefix = 0;
  Listing saved;  // without damaged ones
};

// Returns the points in order, the first before all changes and the last after
// them. `listed[i]` is the listing after i of the record's changes. A
// checkpoint also counts as saved when the file or directory that becomes the
// next one is created.
std::vector<SavePoint> SavePoints(const DiskRecord& record,
                                  const std::vector<TraceMark>& marks,
                                  const std::vector<Listing>& listed);

struct CrashFinding {
  CrashProblem problem = CrashProblem::kLost;
  std::string checkpoint;
  std::string detail;
};

// The findings about a state that was left after `prefix` changes; at most one
// for each checkpoint.
std::vector<CrashFinding> JudgeListing(const Listing& found, size_t prefix,
                                       const std::vector<SavePoint>& points,
                                       const std::vector<Listing>& listed);

}  // namespace holdfast
