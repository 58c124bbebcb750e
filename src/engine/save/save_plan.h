// SavePlan: everything a save will write, decided before a byte is written.
//
// Values (zarr metadata and chunks) are numbered in the order of their arrays,
// sorted by name, so that equal trees give equal files for any thread count.
// With several processes each plans independently: all see every array, and
// number only the values that they write. Sharded arrays are written by the
// processes that have the shards, deferred arrays by all processes (a run of
// chunks each), and everything else by the primary.
// Thread-safety: immutable. Ownership: borrows the Tree it was made from.
// Units: bytes. Errors: InvalidArgument with Orbax's messages for trees that
// Orbax refuses to save.
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

// The layout for one dtype and shape; shared by all arrays that have them and
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
  // True if chunks are cast, or some are assembled from several shards. Each
  // chunk then needs scratch memory of its own size until it is written.
  bool needs_scratch = false;
  // True if chunks are put into C order, or padded, before they are compressed.
  // This needs as much scratch memory again.
  bool needs_packing = false;
  // If not null, the save only refers to the array's chunks where they are
  // stored, and `chunks` is empty.
  const StoredChunks* stored = nullptr;
  // The part that this process writes: the metadata, and these chunks
  // (ascending indices in the grid; absent means all).
  bool has_metadata = true;
  std::optional<std::vector<uint64_t>> chunks;
  uint64_t first_value = 0;  // index of its metadata, if any; chunks follow

  uint64_t chunk_count() const {
    return chunks ? chunks->size() : layout->chunk_count;
  }
  uint64_t value_count() const { return has_metadata + chunk_count(); }
  uint64_t first_chunk_value() const { return first_value + has_metadata; }
  // Returns the index in the grid of the chunk that a value holds.
  // REQUIRES: first_chunk_value() <= value, and the value belongs to the array.
  uint64_t ChunkOf(uint64_t value) const {
    const uint64_t i = value - first_chunk_value();
    return chunks ? (*chunks)[i] : i;
  }
};

// The role of this process among those that plan.
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
  uint64_t held_bytes = 0;  // for the budget; includes scratch
};

struct SavePlan {
  // The options it was made with, after WithSources; null only in an empty
  // plan.
  std::shared_ptr<const SaveOptions> options;
  const Tree* tree = nullptr;    // borrowed; the leaves borrow it too
  std::vector<FlatLeaf> leaves;  // in JAX's order
  std::vector<PlannedArray> arrays;
  std::vector<PlannedBatch> batches;
  uint64_t value_count = 0;
  uint64_t decoded_bytes = 0;
  uint64_t chunk_count = 0;  // of this process
  bool has_jax_arrays = false;
  int zarr_format = 2;
  PlanPart part;  // what this process writes of the plan
  // With SaveOptions::also: where the arrays are stored.
  std::optional<AlsoFiles> also;
  // Name of the files of array metadata; empty: the format's.
  std::string metadata_key;
};

// Returns whether other code writes the leaf.
bool IsExternal(const FlatLeaf& leaf);

// Returns the index of the array that value `index` belongs to. An array
// without values written here begins where the next array does.
size_t ArrayOfValue(const SavePlan& plan, uint64_t index);

Result<SavePlan> MakeSavePlan(const Tree& tree, const SaveOptions& options,
                              const PlanPart& part = {});

// Small values are encoded together until a batch holds this many bytes.
inline constexpr uint64_t kBatchBytesTarget = 64 << 10;

}  // namespace holdfast
