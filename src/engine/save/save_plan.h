// SavePlan: everything a save will write, decided before a byte is written.
//
// Values (zarr metadata and chunks) are numbered in the order of their arrays,
// sorted by name, so that equal trees give equal files for any thread count.
// With several processes each plans by itself: all see every array, and number
// only the values that they write. Sharded arrays are written where their
// shards are, deferred ones by all, a run of chunks each, the rest by the
// primary.
// Thread-safety: immutable. Ownership: borrows the Tree it was made from.
// Units: bytes. Errors: InvalidArgument with Orbax's texts for what it refuses
// to save.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/restore/array_layout.h"
#include "engine/save/also_format.h"
#include "engine/save/array_source.h"
#include "engine/save/stored_chunks.h"
#include "ground/tree/flatten.h"
#include "holdfast/options.h"
#include "holdfast/tree.h"

namespace holdfast {

// The layout of one dtype and shape; shared by all arrays that have them and
// are stored alike.
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
  // Its chunks are referred to where they lie; `chunks` is empty then.
  const StoredChunks* stored = nullptr;
  // The part that this process writes: the metadata, and these chunks
  // (ascending numbers in the grid; absent: all).
  bool has_metadata = true;
  std::optional<std::vector<uint64_t>> chunks;
  uint64_t first_value = 0;  // number of its metadata, if any; chunks follow

  uint64_t chunk_count() const {
    return chunks ? chunks->size() : layout->chunk_count;
  }
  uint64_t value_count() const { return has_metadata + chunk_count(); }
  uint64_t first_chunk_value() const { return first_value + has_metadata; }
  // REQUIRES: first_chunk_value() <= value, and the value is the array's.
  uint64_t ChunkOf(uint64_t value) const {
    const uint64_t i = value - first_chunk_value();
    return chunks ? (*chunks)[i] : i;
  }
};

// Identifies the one of several processes that plans.
struct PlanPart {
  bool is_partial = false;  // others have the shards that are not here
  bool is_primary = true;   // writes metadata, and what is not sharded
  // Deferred arrays are divided among `count` processes; this is one of them.
  int64_t index = 0;
  int64_t count = 1;
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
  // The options it was made with, WithSources; never null in a plan that was
  // made.
  std::shared_ptr<const SaveOptions> options;
  const Tree* tree = nullptr;    // borrowed, as by its leaves
  std::vector<FlatLeaf> leaves;  // in JAX's order
  std::vector<PlannedArray> arrays;
  std::vector<PlannedBatch> batches;
  uint64_t value_count = 0;
  uint64_t decoded_bytes = 0;
  uint64_t chunk_count = 0;  // of this process
  bool has_jax_arrays = false;
  int zarr_format = 2;
  PlanPart part;  // what this process writes of it
  // With SaveOptions::also: where the arrays lie.
  std::optional<AlsoFiles> also;
  // Name of the files of array metadata; empty: the format's.
  std::string metadata_key;
};

Result<SavePlan> MakeSavePlan(const Tree& tree, const SaveOptions& options,
                              const PlanPart& part = {});

// Small values are encoded together until a batch holds this many bytes.
inline constexpr uint64_t kBatchBytesTarget = 64 << 10;

}  // namespace holdfast
