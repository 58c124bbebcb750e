// Reads only the parts of a leaf that a Selection needs.
//
// Thread-safety: calls may run concurrently on one Checkpoint.
// Ownership: a Picture keeps the memory of its view alive.
// Units: elements; bytes.
// Errors: those of Checkpoint::ReadBox. Callers must not pass a leaf without
// elements.
#pragma once

#include <cstdint>
#include <functional>

#include "cli/slice.h"
#include "holdfast/checkpoint.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"

namespace holdfast::cli {

struct Picture {
  Array memory;
  ConstArrayView view;  // its shape is the SelectedShape of the request
};

// Reads the bounding box, and applies the strides in memory. Reads nothing if
// the selection is empty. REQUIRES: the leaf is an array or a scalar.
Result<Picture> ReadSelection(const Checkpoint& checkpoint, size_t leaf,
                              const Selection& selection);

// Returns the first and last `edge_count` indices of each axis that is longer
// than twice that, and all indices of shorter axes. A large box is not read
// completely: only the chunks at its corners are.
Result<Picture> ReadEdges(const Checkpoint& checkpoint, size_t leaf,
                          const Selection& selection, int64_t edge_count);

// Passes the selection to `take` in C order, in slabs whose boxes have about
// `ram_bytes_max` bytes and end at chunk boundaries if possible. A single index
// of the outermost axis is never divided.
Status ReadInSlabs(const Checkpoint& checkpoint, size_t leaf,
                   const Selection& selection, uint64_t ram_bytes_max,
                   const std::function<Status(const ConstArrayView&)>& take);

}  // namespace holdfast::cli
