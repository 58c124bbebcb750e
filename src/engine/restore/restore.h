// Restore: fills host arrays with the values of stored arrays, reading each
// needed byte once, in file order, within a byte budget.
//
// Thread-safety: one call a Run at a time.
// Errors: DataLoss or NotFound naming leaf, file and offset; Cancelled.
#pragma once

#include <string>
#include <vector>

#include "engine/restore/locate.h"
#include "engine/restore/restore_target.h"

namespace holdfast {

// A chunk that was not there and gave a target the fill value.
struct AbsentChunk {
  size_t target = 0;  // its number among the targets
  std::string key;    // of the chunk in the home's store
};

// Runs the plan, whose targets have their views. From an uncompressed chunk
// only the wanted bytes are read. Whether they are those that were saved is for
// the homes' stores to find out (ArrayHome::byte_check). The bytes read from
// the stores, and from values in line, are added to stats.stored_bytes;
// progress is told to the run's phase, which the caller has started. `absent`,
// unless null, gets the chunks that were not there, sorted by target and key.
Status Restore(RestorePlan plan, Run& run, Stats& stats,
               std::vector<AbsentChunk>* absent = nullptr);

}  // namespace holdfast
