// Identifies the content of a checkpoint, independent of its path and name.
//
// Thread-safety: reads directories; any thread.
// Errors: read errors, with the path.
#pragma once

#include <string>

#include "holdfast/status.h"
#include "stores/place/place.h"

namespace holdfast {

// Returns the SHA-256, in hex, of the checkpoint's list of checksums, which
// covers all of its files. If `place` has no list, hashes the names and sizes
// of all files in byte order. Another save has a different hash, and a copy of
// the files has the same hash. Files that others put next to the listed files
// do not change it. A checkpoint that is a single file of another format counts
// as one file with an empty name.
Result<std::string> ContentHash(const Place& place);

}  // namespace holdfast
