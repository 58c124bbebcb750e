// Decides which targets of any format an overwrite may replace.
//
// Thread-safety: pure functions of the file system, or of a bucket.
// Errors: those of the file system, with the path.
#pragma once

#include <string>

#include "holdfast/status.h"
#include "stores/place/place.h"

namespace holdfast {

// Like CheckMayReplace (engine/commit/replaceable.h), but also allows a
// directory that is a checkpoint of a foreign format (foreign/open/open.h), if
// every file in it has a name of the format. Also checks that no other
// checkpoint next to it refers to it, except deltas of the result `result_id`,
// which stays.
Status CheckMayReplaceAnyFormat(const Place& place,
                                const std::string& result_id = "");

}  // namespace holdfast
