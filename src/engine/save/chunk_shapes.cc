#include "engine/save/chunk_shapes.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <numeric>
#include <string>

#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

// Returns the divisors of `size` in ascending order. Needs sqrt(`size`) steps.
std::vector<int64_t> Divisors(int64_t size) {
  std::vector<int64_t> small;
  std::vector<int64_t> large;
  for (int64_t i = 1; i <= size / i; ++i) {
    if (size % i != 0) continue;
    small.push_back(i);
    if (i != size / i) large.push_back(size / i);
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

// Returns the largest divisor of `size` that is at most `limit`, or 1.
int64_t LargestDivisor(int64_t size, int64_t limit) {
  const std::vector<int64_t> divisors = Divisors(size);
  const auto above = std::upper_bound(divisors.begin(), divisors.end(), limit);
  return above == divisors.begin() ? 1 : *(above - 1);
}

Shape AtLeastOne(const Shape& shape) {
  Shape result = shape;
  for (int64_t& extent : result) extent = std::max<int64_t>(extent, 1);
  return result;
}

class ChunkShapeChooser {
 public:
  ChunkShapeChooser(const Shape& global_shape, const Shape& write_shape)
      : element_count_(ElementCount(write_shape)) {
    for (size_t i = 0; i < write_shape.size(); ++i) {
      divisors_.push_back(Divisors(write_shape[i]));
      is_sharded_.push_back(global_shape[i] != write_shape[i]);
    }
  }

  void CutToOne(int64_t axis) {
    while (divisors_[axis].size() > 1) Reduce(axis);
  }

  // Cuts until the chunk is small enough. Orbax first does this with the shard
  // axes, but CutToOne has already reduced them to one element.
  void CutTo(int64_t element_count_max) {
    while (element_count_ > element_count_max) {
      const int axis = LargestShardedAxis();
      if (axis >= 0) {
        Reduce(axis);
      } else {
        is_sharded_.assign(is_sharded_.size(), true);
      }
    }
  }

  Shape shape() const {
    Shape shape;
    for (const std::vector<int64_t>& divisors : divisors_) {
      shape.push_back(divisors.back());
    }
    return shape;
  }

 private:
  // Returns the first of the largest sharded axes; -1 if they all have extent
  // 1.
  int LargestShardedAxis() const {
    int axis = -1;
    int64_t extent_max = 1;
    for (size_t i = 0; i < divisors_.size(); ++i) {
      if (!is_sharded_[i] || divisors_[i].back() <= extent_max) continue;
      extent_max = divisors_[i].back();
      axis = static_cast<int>(i);
    }
    return axis;
  }

  void Reduce(int64_t axis) {
    std::vector<int64_t>& divisors = divisors_[axis];
    element_count_ /= divisors.back();
    divisors.pop_back();
    element_count_ *= divisors.back();
    is_sharded_[axis] = true;
  }

  // divisors_[i].back() is the chunk's current extent on axis i.
  std::vector<std::vector<int64_t>> divisors_;
  std::vector<bool> is_sharded_;
  int64_t element_count_;
};

Status CheckShapes(const Shape& global_shape, const Shape& write_shape) {
  if (global_shape.size() != write_shape.size()) {
    return InvalidArgumentError(
        "global_shape=" + ShapeToString(global_shape) + " and write_shape=" +
        ShapeToString(write_shape) + " must have the same length.");
  }
  if (ElementCount(AtLeastOne(write_shape)) ==
      std::numeric_limits<int64_t>::max()) {
    return InvalidArgumentError("write_shape=" + ShapeToString(write_shape) +
                                " has too many elements");
  }
  return Status();
}

Status CheckShardAxes(const std::vector<int64_t>& shard_axes, size_t rank) {
  for (int64_t axis : shard_axes) {
    if (axis >= 0 && axis < static_cast<int64_t>(rank)) continue;
    return InvalidArgumentError("All shard_axes=" + ShapeToString(shard_axes) +
                                " must be non-negative and less than rank=" +
                                std::to_string(rank) + ".");
  }
  return Status();
}

}  // namespace

Result<Shape> ChooseChunkShape(const Shape& global_shape,
                               const Shape& write_shape, DType dtype,
                               std::optional<int64_t> target_byte_size,
                               const std::vector<int64_t>& shard_axes) {
  HF_RETURN_IF_ERROR(CheckShapes(global_shape, write_shape));
  const Shape writable = AtLeastOne(write_shape);
  if (!target_byte_size && shard_axes.empty()) return writable;
  HF_RETURN_IF_ERROR(CheckShardAxes(shard_axes, writable.size()));
  ChunkShapeChooser chooser(global_shape, writable);
  for (int64_t axis : shard_axes) chooser.CutToOne(axis);
  if (!target_byte_size) return chooser.shape();
  const int64_t element_bytes = static_cast<int64_t>(DTypeBytes(dtype));
  if (*target_byte_size < element_bytes) {
    return InvalidArgumentError(
        "target_byte_size=" + std::to_string(*target_byte_size) +
        " must be >= " + std::to_string(element_bytes));
  }
  chooser.CutTo(*target_byte_size / element_bytes);
  return chooser.shape();
}

std::optional<int64_t> CalculateChunkByteSize(
    const Shape& write_shape, DType dtype,
    std::optional<int64_t> chunk_byte_size, int64_t data_file_bytes_target) {
  if (data_file_bytes_target == 0) return chunk_byte_size;
  if (chunk_byte_size)
    return std::min(*chunk_byte_size, data_file_bytes_target);
  const int64_t element_bytes = static_cast<int64_t>(DTypeBytes(dtype));
  const bool fits =
      ElementCount(write_shape) <= data_file_bytes_target / element_bytes;
  if (fits) return std::nullopt;
  return data_file_bytes_target;
}

bool ValidateDivisibleShapes(const Shape& divided_shape,
                             const Shape& dividing_shape) {
  if (divided_shape.size() != dividing_shape.size()) return false;
  for (size_t i = 0; i < divided_shape.size(); ++i) {
    if (dividing_shape[i] < 1) return false;
    if (divided_shape[i] % dividing_shape[i] != 0) return false;
  }
  return true;
}

namespace {

// Returns whether a shape is given. None and an empty tuple are equivalent in
// Orbax.
bool IsGiven(const std::optional<Shape>& shape) {
  return shape.has_value() && !shape->empty();
}

Status NotADivisor(const char* name, const Shape& shape, const char* of_name,
                   const Shape& of) {
  return InvalidArgumentError(std::string(name) + "=" + ShapeToString(shape) +
                              " is not a divisor of " + of_name + "=" +
                              ShapeToString(of));
}

Result<Shape> ShapeWithin(const ChunkShapesRequest& request) {
  const int64_t chunk_bytes = *request.chunk_byte_size;
  const auto element_bytes = static_cast<int64_t>(DTypeBytes(request.dtype));
  if (chunk_bytes < element_bytes) {
    return InvalidArgumentError(
        "chunk_byte_size=" + std::to_string(chunk_bytes) +
        " must be >= " + std::to_string(element_bytes));
  }
  return ChooseChunkShape(request.global_shape, request.shard_shape,
                          request.dtype, chunk_bytes);
}

}  // namespace

Result<ChunkShapes> ChooseChunkShapes(const ChunkShapesRequest& request) {
  const bool has_write = IsGiven(request.write_chunk_shape);
  const bool has_read = IsGiven(request.read_chunk_shape);
  const bool has_bytes = request.chunk_byte_size.value_or(0) != 0;
  if ((has_write || has_read || has_bytes) && !request.use_zarr3) {
    return InvalidArgumentError(
        "Zarr3 is not enabled when `write_chunk_shape`, `read_chunk_shape` or "
        "`chunk_byte_size` is specified.");
  }
  if (has_bytes && !request.write_chunk_shape && !request.read_chunk_shape) {
    HF_ASSIGN_OR_RETURN(const Shape shape, ShapeWithin(request));
    return ChunkShapes{shape, shape};
  }
  ChunkShapes shapes;
  shapes.write = has_write ? *request.write_chunk_shape : request.shard_shape;
  if (has_write &&
      !ValidateDivisibleShapes(request.shard_shape, shapes.write)) {
    return NotADivisor("write_chunk_shape", shapes.write, "shard_shape",
                       request.shard_shape);
  }
  shapes.read = has_read ? *request.read_chunk_shape : shapes.write;
  if (has_read && !ValidateDivisibleShapes(shapes.write, shapes.read)) {
    return NotADivisor("read_chunk_shape", shapes.read, "write_chunk_shape",
                       shapes.write);
  }
  return shapes;
}

namespace {

// Returns the largest divisor of `size` within the limit. If that is less than
// half of the limit (as for a prime), returns an extent that makes the chunks
// as equal as possible; the last chunk then extends slightly beyond the array.
int64_t RowExtent(int64_t size, int64_t limit) {
  if (size <= limit) return size;
  if (limit <= 1) return 1;
  const int64_t divisor = LargestDivisor(size, limit);
  if (divisor >= limit - limit / 2) return divisor;
  const int64_t chunk_count = (size + limit - 1) / limit;
  return (size + chunk_count - 1) / chunk_count;
}

}  // namespace

Shape ChooseRowChunks(const Shape& shape, DType dtype, int64_t chunk_bytes) {
  assert(chunk_bytes > 0);
  const int64_t element_bytes = static_cast<int64_t>(DTypeBytes(dtype));
  const int64_t element_count_max =
      std::max<int64_t>(1, chunk_bytes / element_bytes);
  Shape chunk = AtLeastOne(shape);
  // Cut outermost axes first, so that a chunk stays one contiguous range.
  for (size_t axis = 0; axis < chunk.size(); ++axis) {
    if (ElementCount(chunk) <= element_count_max) break;
    const int64_t row_elements =
        ElementCount(Shape(chunk.begin() + axis + 1, chunk.end()));
    chunk[axis] = RowExtent(chunk[axis], element_count_max / row_elements);
  }
  return chunk;
}

void CutAtDivisors(std::span<const int> axes, size_t element_bytes,
                   uint64_t target_bytes, uint64_t min_bytes, Shape& chunk) {
  for (const int axis : axes) {
    const uint64_t bytes =
        static_cast<uint64_t>(ElementCount(chunk)) * element_bytes;
    if (bytes <= target_bytes) return;
    const uint64_t row_bytes = bytes / static_cast<uint64_t>(chunk[axis]);
    const uint64_t rows = std::max<uint64_t>(1, target_bytes / row_bytes);
    const int64_t divisor = LargestDivisor(
        chunk[axis],
        static_cast<int64_t>(std::min<uint64_t>(rows, uint64_t(chunk[axis]))));
    if (static_cast<uint64_t>(divisor) * row_bytes < min_bytes) return;
    chunk[axis] = divisor;
    if (divisor > 1) return;
  }
}

Shape ChooseRunChunks(const Shape& shape, const Shape& part_shape, DType dtype,
                      uint64_t chunk_bytes) {
  constexpr uint64_t kChunkBytesMin = 64 << 10;
  Shape chunk = AtLeastOne(shape);
  std::vector<int> axes;
  bool is_cut = false;
  for (size_t d = shape.size(); d-- > 0;) {
    if (is_cut) {
      chunk[d] = 1;
    } else if (part_shape[d] < shape[d]) {
      chunk[d] = std::gcd(shape[d], part_shape[d]);
      is_cut = true;
    }
    if (chunk[d] > 1) axes.insert(axes.begin(), static_cast<int>(d));
  }
  CutAtDivisors(axes, DTypeBytes(dtype), chunk_bytes, kChunkBytesMin, chunk);
  return chunk;
}

}  // namespace holdfast
