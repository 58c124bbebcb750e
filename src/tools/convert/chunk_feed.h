// ChunkFeed: supplies a save with the elements of its deferred arrays from
// another checkpoint. It reads each stored chunk as rarely as memory allows.
//
// The feed knows in advance which boxes the save will ask for, in order: its
// units. Consecutive units form a batch. The first request for a unit of a
// batch reads the complete batch in one pass, which decodes every stored chunk
// once. Later requests find their elements in memory. A unit's memory is freed
// when all of it has been requested. A request out of order, or for a box that
// is not part of a unit, is served by a separate read. It is slower, but never
// waits for memory.
// Thread-safety: Read and Use may be called from any thread.
// Ownership: borrows the source.
// Units: bytes. Errors: those of Checkpoint::ReadInto.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ground/base/buffer_pool.h"
#include "ground/base/bytes.h"
#include "ground/run/run.h"
#include "ground/tensor/box.h"
#include "ground/tensor/box_index.h"
#include "holdfast/checkpoint.h"

namespace holdfast {

// One box that the save asks for.
struct FeedUnit {
  size_t leaf = 0;  // of the source
  DType dtype = DType::kUint8;
  Box box;

  uint64_t byte_count() const {
    return ElementCount(box.shape) * DTypeBytes(dtype);
  }
};

// Divides `unit` into pieces of at most `bytes_max` bytes (one element, if that
// is larger), and appends them to `units` in C order.
void AppendPieces(const FeedUnit& unit, uint64_t bytes_max,
                  std::vector<FeedUnit>& units);

// Hashes the bytes of elements in C order.
uint64_t ElementsHash(std::string_view elements);

struct FeedOptions {
  RunOptions read;         // of one pass
  uint64_t bytes_max = 0;  // read and not yet requested: two batches
};

class ChunkFeed {
 public:
  // `units` must be in the save's order, each at most half of bytes_max.
  ChunkFeed(const Checkpoint& source, std::vector<FeedUnit> units,
            const FeedOptions& options);

  // Fills `target` with the leaf's elements from `origin` on; the target's
  // shape is the shape of the box.
  Status Read(size_t leaf, const Shape& origin, const ArrayView& target);

  // Passes `fn` the elements of a complete unit, in C order, without copying
  // them.
  Status Use(size_t unit,
             const std::function<Status(std::string_view elements)>& fn);

  const std::vector<FeedUnit>& units() const { return units_; }
  // Returns the ElementsHash of each unit. A unit that was neither read in a
  // batch nor used has none. REQUIRES: no Read or Use of the unit is running.
  const std::vector<std::optional<uint64_t>>& hashes() const { return hashes_; }
  // Returns the bytes read from storage so far.
  uint64_t stored_bytes() const;
  uint64_t waiting_bytes_peak() const;

 private:
  enum class BatchState : uint8_t { kNew, kLoading, kLoaded, kFailed };
  struct Batch {
    size_t first = 0;  // units [first, last)
    size_t last = 0;
    uint64_t byte_count = 0;
    BatchState state = BatchState::kNew;
    Status status;
  };
  // A unit from the moment it is read until all of it was requested.
  struct Waiting {
    std::shared_ptr<Buffer> elements;
    int64_t left_count = 0;
  };

  void MakeBatches();
  void IndexUnits();
  // Returns the unit's elements, or null if the caller must read them itself.
  Result<std::shared_ptr<Buffer>> Take(size_t unit, int64_t element_count);
  Status Load(Batch& batch);
  void GiveBack(size_t unit, int64_t element_count);
  Status ReadAlone(size_t leaf, const Shape& origin, const ArrayView& target);

  const Checkpoint& source_;
  const std::vector<FeedUnit> units_;
  const FeedOptions options_;
  BufferPool pool_;
  Run run_;  // of hashes
  std::vector<size_t> batch_of_unit_;
  // The boxes of a leaf's units, and the units' indices.
  struct LeafUnits {
    std::vector<size_t> units;
    std::unique_ptr<BoxIndex> index;
  };
  std::unordered_map<size_t, LeafUnits> leaves_;
  std::vector<std::optional<uint64_t>> hashes_;

  mutable std::mutex mutex_;
  std::condition_variable loaded_;
  std::vector<Batch> batches_;
  std::vector<Waiting> waiting_;      // by unit
  std::vector<bool> is_passed_over_;  // by unit: was read separately
  uint64_t waiting_bytes_ = 0;
  uint64_t waiting_bytes_peak_ = 0;
  uint64_t stored_bytes_ = 0;
};

}  // namespace holdfast
