// Identifies the content of a checkpoint, wherever it lies and whatever it is
// called.
//
// Thread-safety: reads directories; any thread. Errors: those of reading, with
// the path.
#pragma once

#include <string>

#include "holdfast/status.h"
#include "stores/place/place.h"

namespace holdfast {

// Sha256, in hex, over the list of checksums of the checkpoint at `place`,
// which tells of all of its files; without a list over the names and sizes of
// all files, in byte order. Another save gives another hash, a copy of the
// files the same, and files that others put beside the listed ones change
// nothing. A file of another format that lies by itself counts as one file of
// an empty name.
Result<std::string> ContentHash(const Place& place);

}  // namespace holdfast
