#include "ground/tensor/grid.h"

#include <algorithm>
#include <cassert>

#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

// The chunk indices that a box overlaps: [first, last] in each dimension.
struct ChunkRange {
  Shape first;
  Shape last;
};

ChunkRange TouchedChunks(const ChunkGrid& grid, const Box& box) {
  const size_t rank = grid.chunk_shape.size();
  ChunkRange range{Shape(rank), Shape(rank)};
  for (size_t i = 0; i < rank; ++i) {
    assert(box.origin[i] >= 0 &&
           box.origin[i] <= grid.array_shape[i] - box.shape[i]);
    range.first[i] = box.origin[i] / grid.chunk_shape[i];
    range.last[i] = (box.origin[i] + box.shape[i] - 1) / grid.chunk_shape[i];
  }
  return range;
}

// Moves `index` one step in C order; returns false if it was the last one.
bool Advance(const ChunkRange& range, Shape& index) {
  for (size_t i = index.size(); i-- > 0;) {
    if (index[i] < range.last[i]) {
      ++index[i];
      return true;
    }
    index[i] = range.first[i];
  }
  return false;
}

}  // namespace

Shape ChunkGrid::ChunkCounts() const {
  assert(array_shape.size() == chunk_shape.size());
  Shape counts(array_shape.size());
  for (size_t i = 0; i < counts.size(); ++i) {
    // Adding chunk - 1 first could overflow.
    counts[i] = array_shape[i] / chunk_shape[i] +
                (array_shape[i] % chunk_shape[i] != 0 ? 1 : 0);
  }
  return counts;
}

int64_t ChunkGrid::ChunkCount() const { return ElementCount(ChunkCounts()); }

Shape ChunkGrid::ChunkIndex(int64_t number) const {
  const Shape counts = ChunkCounts();
  Shape index(counts.size());
  for (size_t d = counts.size(); d-- > 0;) {
    index[d] = number % counts[d];
    number /= counts[d];
  }
  return index;
}

Box ChunkGrid::ChunkBox(const Shape& index) const {
  assert(index.size() == array_shape.size());
  Box box{Shape(index.size()), Shape(index.size())};
  for (size_t i = 0; i < index.size(); ++i) {
    box.origin[i] = index[i] * chunk_shape[i];
    assert(index[i] >= 0 && box.origin[i] < array_shape[i]);
    box.shape[i] = std::min(chunk_shape[i], array_shape[i] - box.origin[i]);
  }
  return box;
}

std::vector<Box> ChunkGrid::ChunkBoxes() const {
  std::vector<Box> boxes;
  const int64_t count = ChunkCount();
  for (int64_t number = 0; number < count; ++number) {
    boxes.push_back(ChunkBox(ChunkIndex(number)));
  }
  return boxes;
}

int64_t CountChunks(const ChunkGrid& grid, const Box& box) {
  if (IsEmpty(box)) return 0;
  const ChunkRange range = TouchedChunks(grid, box);
  Shape counts(box.shape.size());
  for (size_t d = 0; d < counts.size(); ++d) {
    counts[d] = range.last[d] - range.first[d] + 1;
  }
  return ElementCount(counts);
}

Status ForEachChunk(const ChunkGrid& grid, const Box& box,
                    const std::function<Status(const Shape& index)>& fn) {
  if (IsEmpty(box)) return Status();
  const ChunkRange range = TouchedChunks(grid, box);
  Shape index = range.first;
  do {
    HF_RETURN_IF_ERROR(fn(index));
  } while (Advance(range, index));
  return Status();
}

Shape RowPieceShape(const Shape& shape, size_t item_bytes,
                    size_t piece_bytes_max) {
  Shape piece(shape.size(), 1);
  int64_t left = std::max<int64_t>(
      // At least one element, even when that is larger than a piece may be.
      1,
      static_cast<int64_t>(piece_bytes_max / std::max<size_t>(1, item_bytes)));
  for (size_t d = shape.size(); d-- > 0;) {
    piece[d] = std::min(shape[d], left);
    if (piece[d] < shape[d]) break;
    left /= piece[d];
  }
  return piece;
}

std::vector<Box> RowPieces(const Box& box, size_t item_bytes,
                           size_t piece_bytes_max) {
  if (IsEmpty(box)) return {};
  std::vector<Box> pieces =
      ChunkGrid{box.shape,
                RowPieceShape(box.shape, item_bytes, piece_bytes_max)}
          .ChunkBoxes();
  for (Box& piece : pieces) piece = Absolute(std::move(piece), box.origin);
  return pieces;
}

}  // namespace holdfast
