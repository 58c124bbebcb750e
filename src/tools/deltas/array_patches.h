// Finds the differences between arrays of a checkpoint and other arrays of the
// same shape, batch by batch.
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

// A chunk of an array, and its elements that differ from the old elements.
struct ChunkPatch {
  size_t array = 0;              // index in the given list
  Box box;                       // in the array
  std::vector<uint32_t> places;  // indices in the chunk, in C order
  Buffer values;                 // the new elements at `places`
};

struct PatchedArray {
  size_t leaf = 0;  // of the checkpoint
  // Returns the old elements of the box, packed: a view of memory that already
  // holds them, or of `scratch`. Called by several threads.
  std::function<Result<std::string_view>(const Box& box, Buffer& scratch)> old;
};

// Reads each array and compares it with its old elements. After each batch,
// passes the patches of the chunks that differ to `take`, in order. Adds what
// was read to `stats`.
Status FindPatches(const Checkpoint& checkpoint,
                   const std::vector<PatchedArray>& arrays,
                   const RunOptions& options, Stats& stats,
                   const std::function<Status(ChunkPatch patch)>& take);

}  // namespace holdfast
