// Checks that a finished target of a foreign format holds the values that were
// read for it.
//
// Thread-safety: one call at a time for a target. Units: bytes.
// Errors: DataLoss naming the leaf and the box that differ; those of reading.
#pragma once

#include <cstdint>
#include <vector>

#include "convert/format_convert.h"

namespace holdfast {

struct CheckTargetOptions {
  RunOptions run;          // of each pass
  ProgressFn progress;     // of the whole; may be empty
  uint64_t bytes_max = 0;  // compared at a time
};

// Bytes that were compared. `hashes`: ElementsHash of the units.
Result<uint64_t> CheckTarget(const Checkpoint& source, const Checkpoint& target,
                             const TargetPlan& plan, const CopyPlan& copy,
                             const std::vector<uint64_t>& hashes,
                             const CheckTargetOptions& options);

}  // namespace holdfast
