// SavePlan: everything a save will write, decided before a byte is written.
//
// Values (zarr metadata and chunks) are numbered in the order of their arrays,
// sorted by name, so that equal trees give equal files for any thread count.
// Thread-safety: immutable. Ownership: borrows the Tree it was made from.
// Units: bytes.
// Errors: InvalidArgument with Orbax's texts for what it refuses to save.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/array_layout.h"
#include "checkpoint/array_source.h"
#include "holdfast/options.h"
#include "holdfast/tree.h"
#include "tree/flatten.h"

namespace holdfast {

// How one dtype and shape is stored; shared by all arrays that have them and
// are to be stored alike.
struct SaveLayout {
  std::shared_ptr<const ArrayLayout> array;
  Shape write_shape;
  std::string metadata_text;
  uint64_t chunk_count = 0;

  DType dtype() const { return array->format.metadata.dtype; }
};

struct PlannedArray {
  std::string name;
  size_t leaf = 0;  // index into leaves
  ArraySource source;
  std::shared_ptr<const SaveLayout> layout;
  // Chunks are cast, or some are put together from several shards: each takes
  // its own bytes of scratch until it is written.
  bool needs_scratch = false;
  // Chunks are put in C order, or padded, before they are compressed: as much
  // scratch again.
  bool needs_packing = false;
  uint64_t first_value = 0;  // number of its metadata; its chunks follow
};

// Consecutive values [first, last) encoded by one thread at a time.
struct PlannedBatch {
  uint64_t first = 0;
  uint64_t last = 0;
  size_t array = 0;         // of the first value
  uint64_t byte_count = 0;  // decoded, for progress
  uint64_t held_bytes = 0;  // for the budget: with scratch
};

struct SavePlan {
  std::vector<FlatLeaf> leaves;  // in JAX's order
  std::vector<PlannedArray> arrays;
  std::vector<PlannedBatch> batches;
  uint64_t value_count = 0;
  uint64_t decoded_bytes = 0;
  bool has_jax_arrays = false;
  int zarr_format = 2;
  // Name of the files of array metadata; empty: the format's.
  std::string metadata_key;
};

Result<SavePlan> MakeSavePlan(const Tree& tree, const SaveOptions& options);

// Small values are encoded together until a batch holds this many bytes.
inline constexpr uint64_t kBatchBytesTarget = 64 << 10;

}  // namespace holdfast
