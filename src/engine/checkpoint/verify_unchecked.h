// VerifyCheckpoint for callers that must know what it could not check.
//
// Thread-safety, errors: of VerifyCheckpoint (opened_checkpoint.h).
#pragma once

#include <set>
#include <string>

#include "holdfast/checkpoint.h"
#include "stores/place/place.h"

namespace holdfast {

// `unchecked`, unless null, receives the names, as in Open, of leaves with
// bytes that no checksum covered; only those in this process's share.
Result<VerifyReport> VerifyNotingUnchecked(const Place& place,
                                           const OpenOptions& options,
                                           const RunOptions& run,
                                           ProcessGroup* group,
                                           std::set<std::string>* unchecked);

}  // namespace holdfast
