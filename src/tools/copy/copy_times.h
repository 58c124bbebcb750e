// Keeps the times of the source files that a view contains as hard links or
// copies. A view without checksums recognizes its sources by their times, so a
// copy of the view must have the same times.
//
// Thread-safety: pure functions of the file system.
#pragma once

#include <string>
#include <vector>

#include "engine/commit/tree_listing.h"
#include "holdfast/status.h"

namespace holdfast {

// Returns the names of such files in the listing. An unreadable list of
// checksums counts as empty.
std::vector<std::string> HeldSources(const TreeListing& source);

// Gives the files `names` in the directory `copy` the times of their originals
// in `source`. REQUIRES: the source is local.
Status KeepTimes(const TreeListing& source,
                 const std::vector<std::string>& names,
                 const std::string& copy);

}  // namespace holdfast
