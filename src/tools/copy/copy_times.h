// The files that a view lists as its sources and contains itself, as hard links
// or copies: without checksums the view recognises them by their times, which a
// copy of the view must therefore keep.
//
// Thread-safety: pure functions of the file system.
#pragma once

#include <string>
#include <vector>

#include "engine/commit/tree_listing.h"
#include "holdfast/status.h"

namespace holdfast {

// The names of such files in the listing. An unreadable list of checksums
// counts as empty.
std::vector<std::string> HeldSources(const TreeListing& source);

// Gives the files of these names in the directory `copy` the times of their
// originals. REQUIRES: the source is local.
Status KeepTimes(const TreeListing& source,
                 const std::vector<std::string>& names,
                 const std::string& copy);

}  // namespace holdfast
