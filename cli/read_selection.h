// Reads what a Selection of a leaf needs, and no more.
//
// Thread-safety: calls may run concurrently on one Checkpoint.
// Ownership: a Picture keeps the memory behind its view.
// Units: elements; bytes.
// Errors: those of Checkpoint::ReadBox; InvalidArgument for a leaf without
// elements is the caller's to prevent.
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
  ConstArrayView view;  // shape: SelectedShape of what was asked for
};

// Reads the bounding box and strides in memory. Reads nothing when the
// selection is empty. REQUIRES: the leaf is an array or a scalar.
Result<Picture> ReadSelection(const Checkpoint& checkpoint, size_t leaf,
                              const Selection& selection);

// The first and last `edge_count` indices of each axis longer than twice that,
// all of shorter ones, put together. Large boxes are not read whole: only the
// chunks at the corners are.
Result<Picture> ReadEdges(const Checkpoint& checkpoint, size_t leaf,
                          const Selection& selection, int64_t edge_count);

// Hands the selection to `take` in C order, in slabs whose boxes are about
// `ram_bytes_max` and end between chunks where they can. A single index of the
// outermost axis is never divided.
Status ReadInSlabs(const Checkpoint& checkpoint, size_t leaf,
                   const Selection& selection, uint64_t ram_bytes_max,
                   const std::function<Status(const ConstArrayView&)>& take);

}  // namespace holdfast::cli
