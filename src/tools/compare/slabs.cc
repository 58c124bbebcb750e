#include "tools/compare/slabs.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

namespace holdfast {
namespace {

constexpr uint64_t kTargetBytes = uint64_t{4} << 20;
constexpr uint64_t kUnboundedSlabBytes = uint64_t{64} << 20;

// Returns the bytes of an array; saturates.
uint64_t BytesOf(const Shape& shape, uint64_t element_bytes) {
  const auto count = static_cast<uint64_t>(ElementCount(shape));
  return count > UINT64_MAX / element_bytes ? UINT64_MAX
                                            : count * element_bytes;
}

int64_t LeastCommonMultiple(int64_t a, int64_t b, int64_t limit) {
  const int64_t factor = a / std::gcd(a, b);
  return factor > limit / b ? limit : std::min(limit, factor * b);
}

// Returns the box that slabs are multiples of: complete chunks of both sides if
// that fits, else the largest chunk that fits, else a single element.
Shape UnitOf(const Shape& shape, const std::vector<Shape>& chunks,
             uint64_t element_bytes, uint64_t bytes_max) {
  const size_t rank = shape.size();
  Shape multiple(rank, 1), largest(rank, 1);
  std::vector<Shape> candidates;
  for (const Shape& chunk : chunks) {
    if (chunk.size() != rank) continue;
    Shape clipped(rank);
    for (size_t i = 0; i < rank; ++i) {
      clipped[i] = std::clamp<int64_t>(chunk[i], 1, shape[i]);
      multiple[i] = LeastCommonMultiple(multiple[i], clipped[i], shape[i]);
      largest[i] = std::max(largest[i], clipped[i]);
    }
    candidates.push_back(std::move(clipped));
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Shape& a, const Shape& b) {
                     return ElementCount(a) > ElementCount(b);
                   });
  candidates.insert(candidates.begin(), {multiple, largest});
  for (Shape& candidate : candidates) {
    if (BytesOf(candidate, element_bytes) <= bytes_max) return candidate;
  }
  return Shape(rank, 1);
}

}  // namespace

SlabSizes SlabSizesOf(uint64_t memory_bytes) {
  if (memory_bytes == 0) return {kTargetBytes, kUnboundedSlabBytes};
  const uint64_t bytes_max = std::max<uint64_t>(1, memory_bytes / 4);
  return {std::min(kTargetBytes, std::max<uint64_t>(1, bytes_max / 2)),
          bytes_max};
}

SlabGrid::SlabGrid(Shape shape, const std::vector<Shape>& chunk_shapes,
                   uint64_t element_bytes, const SlabSizes& sizes)
    : shape_(std::move(shape)) {
  if (ElementCount(shape_) == 0) return;
  slab_ = UnitOf(shape_, chunk_shapes, element_bytes, sizes.bytes_max);
  uint64_t chunk_bytes = 0;
  for (const Shape& chunk : chunk_shapes) {
    chunk_bytes = std::max(chunk_bytes, BytesOf(chunk, element_bytes));
  }
  // A chunk that is too large is decoded once for each of its slabs, so these
  // should be as large as possible.
  const uint64_t target_bytes =
      chunk_bytes > sizes.bytes_max ? sizes.bytes_max : sizes.target_bytes;
  for (size_t i = slab_.size(); i-- > 0;) {
    const uint64_t times = target_bytes / BytesOf(slab_, element_bytes);
    if (times > 1) {
      const auto limit = static_cast<uint64_t>(shape_[i]);
      const auto extent = static_cast<uint64_t>(slab_[i]);
      slab_[i] = static_cast<int64_t>(
          times > limit / extent ? limit : std::min(limit, extent * times));
    }
    if (slab_[i] < shape_[i]) break;
  }
  count_ = 1;
  for (size_t i = 0; i < slab_.size(); ++i) {
    count_ *= static_cast<uint64_t>((shape_[i] - 1) / slab_[i] + 1);
  }
}

Box SlabGrid::At(uint64_t number) const {
  assert(number < count_);
  Box box{Shape(shape_.size()), Shape(shape_.size())};
  for (size_t i = shape_.size(); i-- > 0;) {
    const auto along = static_cast<uint64_t>((shape_[i] - 1) / slab_[i] + 1);
    box.origin[i] = static_cast<int64_t>(number % along) * slab_[i];
    box.shape[i] = std::min(slab_[i], shape_[i] - box.origin[i]);
    number /= along;
  }
  return box;
}

uint64_t SlabGrid::element_count_max() const {
  return count_ == 0 ? 0 : static_cast<uint64_t>(ElementCount(slab_));
}

int64_t FlatIndex(const Shape& shape, const Box& box, int64_t position) {
  int64_t flat = 0, stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    flat += (box.origin[i] + position % box.shape[i]) * stride;
    position /= box.shape[i];
    stride *= shape[i];
  }
  return flat;
}

Shape IndexOf(const Shape& shape, int64_t flat) {
  Shape index(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    index[i] = flat % shape[i];
    flat /= shape[i];
  }
  return index;
}

}  // namespace holdfast
