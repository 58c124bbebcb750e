// The files that a view lists as its sources and holds itself, by hard links or
// as copies: where it has no checksums of them it knows them by their times,
// which a copy of the view must therefore keep.
//
// Thread-safety: pure functions of the file system.
#pragma once

#include <string>
#include <vector>

#include "engine/commit/tree_listing.h"
#include "holdfast/status.h"

namespace holdfast {

// Their names among the files of the listing. A list of checksums that cannot
// be read lists none.
std::vector<std::string> HeldSources(const TreeListing& source);

// Gives the files of these names in the directory `copy` the times of their
// originals. REQUIRES: the source is local.
Status KeepTimes(const TreeListing& source,
                 const std::vector<std::string>& names,
                 const std::string& copy);

}  // namespace holdfast
