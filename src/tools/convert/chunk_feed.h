// ChunkFeed: gives a save the elements of its deferred arrays out of another
// checkpoint, reading each stored chunk of that as seldom as memory allows.
//
// The feed knows beforehand which boxes the save will ask for, and in which
// order: its units. Neighbours in that order make a batch. The first that asks
// for a unit of a batch has all of it read in one pass, in which every stored
// chunk is decoded once; the others find it there. A unit's memory is given
// back when it has been asked for. A caller that asks for something else, or
// out of order, gets it by a read of its own: slower, and never a wait.
// Thread-safety: Read from any thread.
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

// `unit` in pieces of at most `bytes_max` bytes (one element, if that is less),
// in C order.
void AppendPieces(const FeedUnit& unit, uint64_t bytes_max,
                  std::vector<FeedUnit>& units);

// Elements in C order, of any dtype.
uint64_t ElementsHash(std::string_view elements);

struct FeedOptions {
  RunOptions read;         // of one pass
  uint64_t bytes_max = 0;  // read and not yet asked for; twice a batch
};

class ChunkFeed {
 public:
  // `units`: in the order of the save, each of at most half of bytes_max.
  ChunkFeed(const Checkpoint& source, std::vector<FeedUnit> units,
            const FeedOptions& options);

  // target = the box of its shape at `origin`.
  Status Read(size_t leaf, const Shape& origin, const ArrayView& target);

  // Gives `fn` the elements of a whole unit, in C order, where they lie.
  Status Use(size_t unit,
             const std::function<Status(std::string_view elements)>& fn);

  const std::vector<FeedUnit>& units() const { return units_; }
  // The ElementsHash of each unit; absent for a unit that was never read in a
  // batch, nor used. REQUIRES: no Read or Use of it is under way.
  const std::vector<std::optional<uint64_t>>& hashes() const { return hashes_; }
  // Read from storage so far.
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
  // A unit from the moment it is read until all of it was asked for.
  struct Waiting {
    std::shared_ptr<Buffer> elements;
    int64_t left_count = 0;
  };

  void MakeBatches();
  void IndexUnits();
  // The unit's elements, or null when the caller reads for itself.
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
  // Boxes of a leaf's units, and their numbers.
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
  std::vector<bool> is_passed_over_;  // by unit: was read by itself
  uint64_t waiting_bytes_ = 0;
  uint64_t waiting_bytes_peak_ = 0;
  uint64_t stored_bytes_ = 0;
};

}  // namespace holdfast
