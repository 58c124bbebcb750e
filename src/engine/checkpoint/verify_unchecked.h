// VerifyCheckpoint for callers that must know what it could not check.
//
// Thread-safety, errors: as VerifyCheckpoint (opened_checkpoint.h).
#pragma once

#include <set>
#include <string>

#include "holdfast/checkpoint.h"
#include "stores/place/place.h"

namespace holdfast {

// Like VerifyCheckpoint. Also adds to `unchecked`, unless null, the names of
// leaves with bytes that no checksum covered, as Open names them. Covers only
// this process's share of the work.
Result<VerifyReport> VerifyNotingUnchecked(const Place& place,
                                           const OpenOptions& options,
                                           const RunOptions& run,
                                           ProcessGroup* group,
                                           std::set<std::string>* unchecked);

}  // namespace holdfast
