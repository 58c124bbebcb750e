// ArraySource: the place of the elements of one array or scalar to be saved:
// one piece of memory, shards, of which this process may have only some, or an
// ArrayReader.
//
// Thread-safety: immutable; const methods may run concurrently.
// Ownership: borrows the Tree it was made from.
// Units: elements. Errors: InvalidArgument for shards that do not cover the
// array exactly once (at most once when others have the rest), or whose dtypes
// differ.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ground/tensor/box_index.h"
#include "ground/tensor/grid.h"
#include "holdfast/tree.h"

namespace holdfast {

class ArraySource {
 public:
  ArraySource() = default;
  // REQUIRES: an array or scalar leaf. `is_partial`: other processes have the
  // shards that are not here.
  static Result<ArraySource> Of(const Tree& leaf, bool is_partial = false);

  DType dtype() const { return whole_.dtype; }
  const Shape& shape() const { return whole_.shape; }

  bool is_sharded() const { return shards_ != nullptr; }
  bool is_deferred() const { return reader_ != nullptr; }
  // Null: the elements are read.
  const StoredChunks* stored() const {
    return reader_ == nullptr ? nullptr : reader_->stored();
  }

  // The elements at `box` where they lie; nullopt when they are spread over
  // shards, or not in memory.
  std::optional<ConstArrayView> Find(const Box& box) const;
  // target = the elements at `box`, cast to its dtype. Fails only as a reader
  // does. REQUIRES: they are in this process.
  Status CopyTo(const Box& box, const ArrayView& target) const;
  // Elements of `box` that are in this process.
  int64_t CountElements(const Box& box) const;
  // The numbers of the chunks of the grid that lie in this process's shards,
  // ascending. InvalidArgument for one that lies there in part.
  // REQUIRES: is_sharded().
  Result<std::vector<uint64_t>> ChunksHere(const ChunkGrid& grid) const;
  // Whether every chunk of the grid is found in one place.
  bool FindsAllChunks(const ChunkGrid& grid) const;
  // Whether the elements of every chunk that is found lie in C order.
  bool FindsChunksPacked(const ChunkGrid& grid) const;

 private:
  // Has no data when there are shards.
  ConstArrayView whole_;
  const std::vector<ArrayShard>* shards_ = nullptr;
  const ArrayReader* reader_ = nullptr;
  std::shared_ptr<const BoxIndex> index_;
};

}  // namespace holdfast
