// Gives one directory the name of another directory, and keeps the other one.
//
// Thread-safety: any thread. Ownership: none.
// Errors: NotFound, AlreadyExists (something is at `aside`), Unimplemented (the
// file system cannot rename directories), those of errno_status.h.
#pragma once

#include <string>

#include "holdfast/status.h"

namespace holdfast::local {

// Gives the directory `source` the name of the directory `target`, durably.
// Returns the new path of the old directory: `source`, or `aside` on file
// systems that cannot exchange names.
//
// On such file systems nothing may exist at `aside`, and two renames are made.
// Between them nothing is at `target`, and both directories have names. If the
// call fails after a rename ("sync directory"), the names may have changed;
// otherwise they are as before.
Result<std::string> ReplaceDirectory(const std::string& source,
                                     const std::string& target,
                                     const std::string& aside);

}  // namespace holdfast::local
