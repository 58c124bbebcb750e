// NeedOfBoxes: computes the union of the boxes' chunks on a grid of cells.
#include <algorithm>
#include <cassert>

#include "holdfast/shard_plan.h"

namespace holdfast {
namespace {

// [begin, end) along one dimension.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};

using Ranges = std::vector<Range>;  // one per dimension

Ranges ElementsOf(const DeviceShard& box) {
  Ranges ranges;
  for (size_t d = 0; d < box.shape.size(); ++d) {
    ranges.push_back({box.origin[d], box.origin[d] + box.shape[d]});
  }
  return ranges;
}

Ranges ChunksOf(const Ranges& elements, const Shape& chunk_shape) {
  Ranges ranges = elements;
  for (size_t d = 0; d < ranges.size(); ++d) {
    const int64_t chunk = chunk_shape[d];
    ranges[d] = {elements[d].begin / chunk, (elements[d].end - 1) / chunk + 1};
  }
  return ranges;
}

// The cells into which the boxes' borders cut space. Boxes that come from a
// mesh have few cells. Each box consists of complete cells.
class Cells {
 public:
  explicit Cells(const std::vector<Ranges>& boxes) {
    const size_t rank = boxes.empty() ? 0 : boxes[0].size();
    borders_.resize(rank);
    size_t cell_count = 1;
    for (size_t d = 0; d < rank; ++d) {
      std::vector<int64_t>& borders = borders_[d];
      for (const Ranges& box : boxes) {
        borders.push_back(box[d].begin);
        borders.push_back(box[d].end);
      }
      std::sort(borders.begin(), borders.end());
      borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
      cell_count *= borders.size() - 1;
    }
    is_covered_.resize(cell_count);
    for (const Ranges& box : boxes) Cover(box, 0, 0);
  }

  // Sums, over all cells that a box covers, the product over the dimensions of
  // `length(d, range)`.
  template <typename Length>
  int64_t Sum(const Length& length) const {
    return Sum(length, 0, 0, 1);
  }

 private:
  size_t CellsAlong(size_t d) const { return borders_[d].size() - 1; }

  void Cover(const Ranges& box, size_t d, size_t cell) {
    if (d == borders_.size()) {
      is_covered_[cell] = true;
      return;
    }
    const std::vector<int64_t>& borders = borders_[d];
    size_t i = std::lower_bound(borders.begin(), borders.end(), box[d].begin) -
               borders.begin();
    for (; borders[i] < box[d].end; ++i) {
      Cover(box, d + 1, cell * CellsAlong(d) + i);
    }
  }

  template <typename Length>
  int64_t Sum(const Length& length, size_t d, size_t cell,
              int64_t product) const {
    if (d == borders_.size()) return is_covered_[cell] ? product : 0;
    int64_t sum = 0;
    for (size_t i = 0; i < CellsAlong(d); ++i) {
      const Range range{borders_[d][i], borders_[d][i + 1]};
      sum += Sum(length, d + 1, cell * CellsAlong(d) + i,
                 product * length(d, range));
    }
    return sum;
  }

  std::vector<std::vector<int64_t>> borders_;
  std::vector<bool> is_covered_;
};

}  // namespace

ChunkNeed NeedOfBoxes(const Shape& array_shape, const Shape& chunk_shape,
                      std::span<const DeviceShard> boxes) {
  assert(array_shape.size() == chunk_shape.size());
  std::vector<Ranges> elements, chunks;
  for (const DeviceShard& box : boxes) {
    // An empty box has no last element, so no last chunk.
    if (ElementCount(box.shape) == 0) continue;
    elements.push_back(ElementsOf(box));
    chunks.push_back(ChunksOf(elements.back(), chunk_shape));
  }
  if (elements.empty()) return {};
  const auto length = [](size_t, Range range) {
    return range.end - range.begin;
  };
  const auto elements_in_chunks = [&](size_t d, Range range) {
    return std::min(range.end * chunk_shape[d], array_shape[d]) -
           range.begin * chunk_shape[d];
  };
  const Cells chunk_cells(chunks);
  return {chunk_cells.Sum(length), chunk_cells.Sum(elements_in_chunks),
          Cells(elements).Sum(length)};
}

}  // namespace holdfast
