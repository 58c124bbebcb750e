// Compares a checkpoint's place with the lists of checksums that it has.
//
// Thread-safety: any thread. Errors: DataLoss naming what differs, or is gone.
#pragma once

#include "checkpoint/check/checked_files.h"
#include "checkpoint/commit/layout.h"
#include "holdfast/options.h"
#include "holdfast/status.h"

namespace holdfast {

// Checks what FindCheckpoint has read, and that the items that are asked for
// are all there; gives each of them its CheckedFiles, and `info` its notes.
Status CheckFound(const OpenOptions& options, FoundCheckpoint& place);
// The same by `files`, those of the place's directory.
Status CheckFoundBy(const CheckedFiles& files, const OpenOptions& options,
                    FoundCheckpoint& place);

}  // namespace holdfast
