// Identifies the content of a checkpoint, independent of its path and name.
//
// Thread-safety: reads directories; any thread.
// Errors: those of reading, with the path.
#pragma once

#include <string>

#include "holdfast/status.h"
#include "stores/place/place.h"

namespace holdfast {

// Sha256, in hex, over the list of checksums of the checkpoint at `place`,
// which covers all of its files; without a list, over the names and sizes of
// all files, in byte order. Another save has a different hash, a copy of the
// files the same, and files that others put next to the listed ones change
// nothing. A checkpoint that is a single file of another format counts as one
// file with an empty name.
Result<std::string> ContentHash(const Place& place);

}  // namespace holdfast
