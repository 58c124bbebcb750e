// Which steps of a root a view or a delta among its other steps refers to: they
// must stay as long as it does.
//
// Of views only links count: hard links and copies hold what they need.
// Thread-safety: pure functions of the file system.
// Errors: those of looking: who cannot look must not remove.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "holdfast/status.h"
#include "place/place.h"

namespace holdfast {

// Those of `names`, directories of `root`, that a directory which is none of
// them refers to, be it by way of another; and by which: "the view 7".
Result<std::map<std::string, std::string>> NeededByOthers(
    const Place& root, const std::vector<std::string>& names);

}  // namespace holdfast
