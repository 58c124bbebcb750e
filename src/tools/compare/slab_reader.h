// Reads tensors of one or two checkpoints slab by slab, on all threads of a
// Run, within its budget.
//
// The memory for a slab is leased from the budget before the slab is read. The
// lease covers the slabs of both sides, and as much again for the reader, whose
// limit that is. Small tensors are read several at a time.
// Thread-safety: several threads call SlabWork::add at the same time.
// Ownership: borrows everything for the call.
// Units: bytes; slabs are numbered within their tensor.
// Errors: Cancelled. Any other failure is reported once for each tensor whose
// slabs could not be read, and the tensor's other slabs are skipped.
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

// One side, or two sides of equal shape. Each side has its own dtype. A tensor
// without elements has no slabs.
struct SlabTensor {
  std::vector<SlabSide> sides;
};

struct Slab {
  size_t tensor = 0;
  uint64_t number = 0;
  Box box;
  // Elements in C order, one pointer per side.
  const char* elements[2] = {nullptr, nullptr};
  int64_t element_count() const { return ElementCount(box.shape); }
};

struct SlabWork {
  // Called once for every slab, in no particular order.
  std::function<void(const Slab&)> add;
  // Called for a tensor that cannot be read completely; one call at a time.
  std::function<void(size_t tensor, const Status&)> fail;
  // If false, slabs consist of complete chunks where possible. Set it if
  // tensors with different chunks must be cut alike.
  bool ignores_chunks = false;
};

// Reads all slabs of `tensors`, and adds to `stats`. Progress counts the bytes
// of all sides under `phase`.
Status ReadSlabs(const std::vector<SlabTensor>& tensors, const SlabWork& work,
                 const RunOptions& options, std::string_view phase,
                 Stats& stats);

}  // namespace holdfast
