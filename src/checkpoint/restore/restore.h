// Restore: fills host arrays with the values of stored arrays, reading each
// needed byte once, in file order, within a byte budget.
//
// Thread-safety: one call a Run at a time.
// Errors: DataLoss or NotFound naming leaf, file and offset; Cancelled.
#pragma once

#include <vector>

#include "checkpoint/restore/locate.h"
#include "checkpoint/restore/restore_target.h"

namespace holdfast {

// `chunks` as LocateChunks gave them for the same targets. Of an uncompressed
// chunk only the wanted bytes are read. That they are those that were saved is
// for the items' stores to find out (checked_store.h). What was read of the
// stores, and of values in line, is added to stats.stored_bytes.
Status Restore(const std::vector<RestoreTarget>& targets,
               std::vector<PlannedChunk> chunks, Run& run, Stats& stats);

}  // namespace holdfast
