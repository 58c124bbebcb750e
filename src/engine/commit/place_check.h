// Compares a checkpoint's directory with the directory's lists of checksums.
//
// Thread-safety: any thread. Errors: DataLoss naming what differs or is
// missing.
#pragma once

#include <string>

#include "engine/check/checked_files.h"
#include "engine/commit/layout.h"
#include "holdfast/options.h"
#include "holdfast/status.h"

namespace holdfast {

// Checks the result of FindCheckpoint, and that all requested items exist;
// gives each item its CheckedFiles, and `info` its notes.
Status CheckFound(const OpenOptions& options, FoundCheckpoint& place);
// Does the same, given `files`, the files of the checkpoint's directory.
Status CheckFoundBy(const CheckedFiles& files, const OpenOptions& options,
                    FoundCheckpoint& place);

// Calls FindCheckpoint, and sets `id` to the PlaceId that the directory had
// before the search.
Result<FoundCheckpoint> FindCheckpointAndId(const Place& place,
                                            const OpenOptions& options,
                                            std::string& id);

// Returns NotFound for a requested item; `there` says what exists instead.
Status ItemNotFoundError(const std::string& item, const std::string& path,
                         const std::string& there);

}  // namespace holdfast
