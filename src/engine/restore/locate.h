// PlanRestore: determines which stored chunks the targets of a restore need,
// where they are, and how they are read. Reads metadata only.
//
// Thread-safety: one call per Run at a time.
// Errors: DataLoss, NotFound and ResourceExhausted, naming leaf and chunk;
// Cancelled.
#pragma once

#include <string_view>
#include <vector>

#include "engine/restore/restore_plan.h"
#include "engine/restore/restore_target.h"
#include "ground/run/run.h"

namespace holdfast {

// Arrays with more chunks are refused: the plan itself would not fit in memory,
// and no real checkpoint has them. Slices have no such limit.
inline constexpr int64_t kChunkCountMax = int64_t{1} << 22;
// Returns ResourceExhausted, naming the leaf, if `chunk_count` is too large.
Status CheckChunkCount(std::string_view leaf_name, int64_t chunk_count);

// Returns the indices of the chunks that the boxes touch, ascending, each once.
// Uses only the memory for these indices, however much the boxes overlap.
Result<std::vector<int64_t>> WantedChunks(std::string_view leaf_name,
                                          const ChunkGrid& grid,
                                          const BoxIndex& boxes,
                                          const CancelToken& cancel);

// Returns how many bytes of a raw array a worker reads at a time.
uint64_t RawPartBytes(Run& run);

// Locates the chunks of all targets, each once, and joins them into reads; the
// views of targets for complete arrays are not needed yet. Reads metadata only.
// DataLoss if an array claims more elements than its stored bytes can hold:
// call it before allocating memory for them. REQUIRES: targets of the same
// array are adjacent, and not empty.
Result<RestorePlan> PlanRestore(std::vector<RestoreTarget> targets, Run& run);

}  // namespace holdfast
