// Finds the moments at which the saves of a run had finished, after which their
// checkpoints must survive.
//
// Thread-safety: pure functions and values.
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
// them. `listed[i]` is the listing after i of the record's changes. Saves end
// at the marks. They also end where the file or directory of the next
// checkpoint is created.
std::vector<SavePoint> SavePoints(const DiskRecord& record,
                                  const std::vector<TraceMark>& marks,
                                  const std::vector<Listing>& listed);

struct CrashFinding {
  CrashProblem problem = CrashProblem::kLost;
  std::string checkpoint;
  std::string detail;
};

// Returns the findings about a state that a crash after `prefix` changes left,
// at most one for each checkpoint.
std::vector<CrashFinding> JudgeListing(const Listing& found, size_t prefix,
                                       const std::vector<SavePoint>& points,
                                       const std::vector<Listing>& listed);

}  // namespace holdfast
