// Tensors of one or two checkpoints read slab by slab, by all threads of a Run,
// within its budget.
//
// The memory of a slab is leased before it is read: the slabs of both sides,
// and as much again for the reader, which is told so. Small tensors are read
// several at a time. Thread-safety: the functions of SlabWork are called by
// several threads. Ownership: borrows everything for the call. Units: bytes;
// slabs are numbered within their tensor. Errors: Cancelled. Any other failure
// belongs to the tensors whose slabs could not be read: it is reported once
// each, and their other slabs are left out.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "ground/run/run.h"
#include "holdfast/checkpoint.h"
#include "tools/compare/slabs.h"

namespace holdfast {

struct SlabSide {
  const Checkpoint* checkpoint = nullptr;
  size_t leaf = 0;
};

// One or two sides of one shape, each with a dtype; no element: no slabs.
struct SlabTensor {
  std::vector<SlabSide> sides;
};

struct Slab {
  size_t tensor = 0;
  uint64_t number = 0;
  Box box;
  // Elements in C order, one of each side.
  const char* elements[2] = {nullptr, nullptr};
  int64_t element_count() const { return ElementCount(box.shape); }
};

struct SlabWork {
  // Every slab once, in no order.
  std::function<void(const Slab&)> add;
  // A tensor that cannot be read whole; one call at a time.
  std::function<void(size_t tensor, const Status&)> fail;
  // The shape of the cut follows the chunks, unless values of tensors in
  // different chunks are to be cut alike.
  bool ignores_chunks = false;
};

// Progress counts the bytes of all sides in `phase`. Adds to `stats`.
Status ReadSlabs(const std::vector<SlabTensor>& tensors, const SlabWork& work,
                 const RunOptions& options, std::string_view phase,
                 Stats& stats);

}  // namespace holdfast
