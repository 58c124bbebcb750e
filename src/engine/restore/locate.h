// PlanRestore: which stored chunks the targets of a restore need, where they
// lie, and how they are read. Reads metadata only.
//
// Thread-safety: one call a Run at a time.
// Errors: DataLoss, NotFound and ResourceExhausted, naming leaf and chunk;
// Cancelled.
#pragma once

#include <string_view>
#include <vector>

#include "engine/restore/restore_plan.h"
#include "engine/restore/restore_target.h"
#include "ground/run/run.h"

namespace holdfast {

// More chunks than this in one array are refused: the plan itself would not fit
// in memory, and no checkpoint has them. Slices have no such limit.
inline constexpr int64_t kChunkCountMax = int64_t{1} << 22;
// ResourceExhausted, naming the leaf.
Status CheckChunkCount(std::string_view leaf_name, int64_t chunk_count);

// The numbers of the chunks that some of the boxes touch, ascending, each once.
// Takes no more memory than these need, however often boxes overlap.
Result<std::vector<int64_t>> WantedChunks(std::string_view leaf_name,
                                          const ChunkGrid& grid,
                                          const BoxIndex& boxes,
                                          const CancelToken& cancel);

// The bytes that a worker reads of a raw array at a time.
uint64_t RawPartBytes(Run& run);

// The chunks of all targets, located, each once, and joined into reads; the
// views of whole arrays are not needed yet. Reads metadata only. DataLoss when
// an array claims more elements than its stored bytes can hold: call it before
// taking memory for them. REQUIRES: targets of one array are neighbours, and
// not empty.
Result<RestorePlan> PlanRestore(std::vector<RestoreTarget> targets, Run& run);

}  // namespace holdfast
