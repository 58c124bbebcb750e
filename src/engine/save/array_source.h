// ArraySource: where the elements of one array or scalar to be saved are: in
// one piece of memory, in shards, of which this process may have only some, or
// behind an ArrayReader. A shard's elements may be behind a reader, too.
//
// Thread-safety: immutable; const methods may run concurrently.
// Ownership: borrows the Tree it was made from.
// Units: elements. Errors: InvalidArgument for shards that do not cover the
// array exactly once (at most once when other processes have the rest), or
// whose dtypes differ.
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
  // Makes the source of a leaf, which must be an array or a scalar.
  // `is_partial` means that other processes have the missing shards.
  static Result<ArraySource> Of(const Tree& leaf, bool is_partial = false);

  DType dtype() const { return whole_.dtype; }
  const Shape& shape() const { return whole_.shape; }

  bool is_sharded() const { return shards_ != nullptr; }
  bool is_deferred() const { return reader_ != nullptr; }
  // Returns whether several processes divide the array among them.
  bool is_divided() const { return is_deferred() && !reader_->is_live(); }
  // Returns null if the elements are read by the reader.
  const StoredChunks* stored() const {
    return reader_ == nullptr ? nullptr : reader_->stored();
  }

  // Returns a view of the elements at `box` in place; nullopt if they are
  // spread over shards, or not in memory.
  std::optional<ConstArrayView> Find(const Box& box) const;
  // Copies the elements at `box` to `target`, cast to its dtype. Fails only if
  // a reader does. REQUIRES: the elements are in this process.
  Status CopyTo(const Box& box, const ArrayView& target) const;
  // Counts the elements of `box` that are in this process.
  int64_t CountElements(const Box& box) const;
  // Returns the indices of the grid's chunks that are in this process's shards,
  // ascending; InvalidArgument if only part of a chunk is in them.
  // REQUIRES: is_sharded().
  Result<std::vector<uint64_t>> ChunksHere(const ChunkGrid& grid) const;
  // Returns whether Find succeeds for every chunk of the grid.
  bool FindsAllChunks(const ChunkGrid& grid) const;
  // Returns whether the elements of every chunk that Find returns are in C
  // order.
  bool FindsChunksPacked(const ChunkGrid& grid) const;

 private:
  // Has no data if there are shards.
  ConstArrayView whole_;
  const std::vector<ArrayShard>* shards_ = nullptr;
  const ArrayReader* reader_ = nullptr;
  bool has_shard_readers_ = false;
  std::shared_ptr<const BoxIndex> index_;
};

}  // namespace holdfast
