// One directory takes the name of another, which is kept.
//
// Thread-safety: any thread. Ownership: none.
// Errors: NotFound, AlreadyExists (something is at `aside`), Unimplemented
// (directories have no other names there), those of errno_status.h.
#pragma once

#include <string>

#include "holdfast/status.h"

namespace holdfast::local {

// Gives the directory `source` the name of the directory `target`, durably.
// Returns the path where the old one is now: `source`, or, on file systems that
// cannot exchange names, `aside`, where nothing is before. There two renames do
// it: between them nothing is at `target`, and both directories have names. If
// it fails after a rename ("sync directory"), the names may have changed;
// otherwise they are as before.
Result<std::string> ReplaceDirectory(const std::string& source,
                                     const std::string& target,
                                     const std::string& aside);

}  // namespace holdfast::local
