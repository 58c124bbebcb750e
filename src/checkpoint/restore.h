// Restore: fills host arrays with the values of stored arrays, reading each
// needed byte once, in file order, within a byte budget.
//
// Thread-safety: one call a Run at a time.
// Errors: DataLoss or NotFound naming leaf, file and offset; Cancelled.
#pragma once

#include <vector>

#include "checkpoint/item.h"
#include "checkpoint/restore_plan.h"
#include "checkpoint/run.h"

namespace holdfast {

// A whole stored array and the memory it goes to.
struct RestoreTarget {
  const Item* item = nullptr;
  const StoredLeaf* leaf = nullptr;  // with a layout
  ArrayView view;                    // of the leaf's shape and dtype
};

struct RestoreOptions {
  // Check raw and blosc values against the digests, where there are some.
  bool verify = true;
};

// More chunks than this in one array are refused: the plan itself would not fit
// in memory, and no checkpoint has them. Slices have no such limit.
inline constexpr int64_t kChunkCountMax = int64_t{1} << 22;
// ResourceExhausted, naming the leaf.
Status CheckChunkCount(const StoredLeaf& leaf);

// The chunks of all targets, located; views are not needed yet. Reads metadata
// only. DataLoss when an array claims more elements than its stored bytes can
// hold: call it before taking memory for them.
Result<std::vector<PlannedChunk>> LocateChunks(
    const std::vector<RestoreTarget>& targets, Run& run);

// `chunks` as LocateChunks gave them for the same targets.
Status Restore(const std::vector<RestoreTarget>& targets,
               std::vector<PlannedChunk> chunks, const RestoreOptions& options,
               Run& run, Stats& stats);

// The part of one leaf at `box`; reads only the chunks it touches, and only
// parts of them where the codec allows. For callers that read slices.
Status RestoreBox(const RestoreTarget& leaf_and_view, const Box& box,
                  CodecContext& context);

}  // namespace holdfast
