// Restore: fills host arrays with the values of stored arrays, reading each
// needed byte once, in file order, within a memory limit.
//
// Thread-safety: one call per Run at a time.
// Errors: DataLoss or NotFound naming leaf, file and offset; Cancelled.
#pragma once

#include <string>
#include <vector>

#include "engine/restore/encoded_sink.h"
#include "engine/restore/locate.h"
#include "engine/restore/restore_target.h"

namespace holdfast {

// A missing chunk, in whose place a target got the fill value.
struct AbsentChunk {
  size_t target = 0;  // its index among the targets
  std::string key;    // of the chunk in the home's store
};

// Runs the plan, whose targets must have their views. From an uncompressed
// chunk only the wanted bytes are read. The homes' stores verify the bytes
// (ArrayHome::byte_check). Bytes read from the stores, and from inline values,
// are added to stats.stored_bytes; progress is reported to the run's phase,
// which the caller has started. `absent`, unless null, receives the missing
// chunks, sorted by target and key. `sink`, unless null, may take chunks.
Status Restore(RestorePlan plan, Run& run, Stats& stats,
               std::vector<AbsentChunk>* absent = nullptr,
               EncodedSink* sink = nullptr);

}  // namespace holdfast
