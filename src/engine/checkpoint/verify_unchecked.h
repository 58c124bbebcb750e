// VerifyCheckpoint, for who must know what it could not check.
//
// Thread-safety, errors: of VerifyCheckpoint (opened_checkpoint.h).
#pragma once

#include <set>
#include <string>

#include "holdfast/checkpoint.h"
#include "stores/place/place.h"

namespace holdfast {

// `unchecked`, unless it is null, gets the names of leaves of which some bytes
// were compared with no checksum, as Open names them: those of this process's
// share.
Result<VerifyReport> VerifyNotingUnchecked(const Place& place,
                                           const OpenOptions& options,
                                           const RunOptions& run,
                                           ProcessGroup* group,
                                           std::set<std::string>* unchecked);

}  // namespace holdfast
