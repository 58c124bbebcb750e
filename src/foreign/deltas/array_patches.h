// The differences between arrays of a checkpoint and others of their shape,
// found batch by batch.
//
// Thread-safety: pure functions. Ownership: borrows the checkpoint.
// Units: elements, bytes. Errors: those of reading.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ground/base/bytes.h"
#include "ground/tensor/box.h"
#include "holdfast/checkpoint.h"

namespace holdfast {

// A chunk of an array, and its elements that are not as they were.
struct ChunkPatch {
  size_t array = 0;              // of the list that was given
  Box box;                       // in the array
  std::vector<uint32_t> places;  // in the chunk, in C order
  Buffer values;                 // of these places
};

struct PatchedArray {
  size_t leaf = 0;  // of the checkpoint
  // The elements of the box as they were, packed: where they lie, or in
  // `scratch`. Called by several threads.
  std::function<Result<std::string_view>(const Box& box, Buffer& scratch)> old;
};

// Reads each array, compares it with the old elements and gives the patches of
// chunks that differ, in order, as far as a batch is read. Counts what was read
// in `stats`.
Status FindPatches(const Checkpoint& checkpoint,
                   const std::vector<PatchedArray>& arrays,
                   const RunOptions& options, Stats& stats,
                   const std::function<Status(ChunkPatch patch)>& take);

}  // namespace holdfast
