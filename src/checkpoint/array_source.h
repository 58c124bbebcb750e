// ArraySource: where the elements of one array or scalar to be saved lie: in
// one piece, or in shards.
//
// Thread-safety: immutable; const methods may run concurrently.
// Ownership: borrows the Tree it was made from.
// Units: elements. Errors: InvalidArgument for shards that do not cover the
// array exactly once, or whose dtypes differ.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "holdfast/tree.h"
#include "tensor/box_index.h"
#include "tensor/grid.h"

namespace holdfast {

class ArraySource {
 public:
  ArraySource() = default;
  // REQUIRES: an array or scalar leaf.
  static Result<ArraySource> Of(const Tree& leaf);

  DType dtype() const { return whole_.dtype; }
  const Shape& shape() const { return whole_.shape; }

  // The elements at `box` where they lie; nullopt when they are spread over
  // shards.
  std::optional<ConstArrayView> Find(const Box& box) const;
  // target = the elements at `box`, cast to its dtype.
  void CopyTo(const Box& box, const ArrayView& target) const;
  // Whether every chunk of the grid is found in one place.
  bool FindsAllChunks(const ChunkGrid& grid) const;
  // Whether the elements of every chunk that is found lie in C order.
  bool FindsChunksPacked(const ChunkGrid& grid) const;

 private:
  // Without data when there are shards.
  ConstArrayView whole_;
  const std::vector<ArrayShard>* shards_ = nullptr;
  std::shared_ptr<const BoxIndex> index_;
};

}  // namespace holdfast
