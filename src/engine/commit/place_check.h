// Compares a checkpoint's place with the lists of checksums that it has.
//
// Thread-safety: any thread. Errors: DataLoss naming what differs, or is gone.
#pragma once

#include <string>

#include "engine/check/checked_files.h"
#include "engine/commit/layout.h"
#include "holdfast/options.h"
#include "holdfast/status.h"

namespace holdfast {

// Checks what FindCheckpoint has read, and that the items that are asked for
// are all there; gives each of them its CheckedFiles, and `info` its notes.
Status CheckFound(const OpenOptions& options, FoundCheckpoint& place);
// The same by `files`, those of the place's directory.
Status CheckFoundBy(const CheckedFiles& files, const OpenOptions& options,
                    FoundCheckpoint& place);

// FindCheckpoint; `id` is the PlaceId that the directory had before the look.
Result<FoundCheckpoint> FindCheckpointAndId(const Place& place,
                                            const OpenOptions& options,
                                            std::string& id);

// NotFound for an item that is asked for; `there` says what there is instead.
Status ItemNotFoundError(const std::string& item, const std::string& path,
                         const std::string& there);

}  // namespace holdfast
