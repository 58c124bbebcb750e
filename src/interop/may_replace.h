// Says which targets of any format an overwrite may replace.
//
// Thread-safety: pure functions of the file system, or of a bucket.
// Errors: those of the file system, with the path.
#pragma once

#include <string>

#include "holdfast/status.h"
#include "place/place.h"

namespace holdfast {

// As CheckMayReplace (checkpoint/commit/replaceable.h), also for directories
// that are checkpoints of foreign formats (interop/open.h), in which every file
// has a name that the format gives.
Status CheckMayReplaceAnyFormat(const Place& place);

}  // namespace holdfast
