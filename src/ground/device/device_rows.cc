#include "ground/device/device_rows.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <numeric>

#include "ground/tensor/strided.h"

namespace holdfast {
namespace {

uint64_t ByteCountOf(DType dtype, const Shape& shape) {
  uint64_t byte_count = DTypeBytes(dtype);
  for (const int64_t extent : shape) {
    byte_count *= static_cast<uint64_t>(extent);
  }
  return byte_count;
}

// Returns the dimensions in the order of memory, the farthest apart first.
std::vector<int> MemoryOrder(const Shape& strides) {
  std::vector<int> order(strides.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return std::abs(strides[a]) > std::abs(strides[b]);
  });
  return order;
}

DeviceAddress AddressOf(const char* data) {
  return reinterpret_cast<DeviceAddress>(data);
}

// Rows that are copied, before it is said on which side the host is.
struct Rows {
  const char* from = nullptr;
  char* to = nullptr;
  uint64_t from_pitch = 0;
  uint64_t to_pitch = 0;
  uint64_t row_bytes = 0;
  uint64_t row_count = 1;

  // Rows of an array that repeats elements may overlap, and rows may run
  // backwards.
  bool are_allowed() const {
    return row_count == 1 ||
           (from_pitch >= row_bytes && from_pitch <= kDevicePitchMax &&
            to_pitch >= row_bytes && to_pitch <= kDevicePitchMax);
  }
};

// Returns the rows that the two innermost loops go through; `from` and `to` are
// null.
Rows InnerRows(const StridedLoops& loops, uint64_t element_bytes) {
  const LoopDim& inner = loops.inner();
  const auto step = static_cast<int64_t>(element_bytes);
  const bool is_dense = inner.extent == 1 || (inner.source_stride == step &&
                                              inner.target_stride == step);
  Rows rows;
  if (!is_dense) {
    rows.row_bytes = element_bytes;
  } else {
    rows.row_bytes = static_cast<uint64_t>(inner.extent) * element_bytes;
    if (loops.rank == 1) return rows;
  }
  const LoopDim& dim = is_dense ? loops.dims[loops.rank - 2] : inner;
  rows.from_pitch = static_cast<uint64_t>(dim.source_stride);
  rows.to_pitch = static_cast<uint64_t>(dim.target_stride);
  rows.row_count = static_cast<uint64_t>(dim.extent);
  return rows;
}

// Calls add(rows) until all elements of `source` are copied to `target`.
template <typename Add>
void ForEachRows(const ConstArrayView& source, const ArrayView& target,
                 const Add& add) {
  const uint64_t element_bytes = DTypeBytes(source.dtype);
  const StridedLoops loops = PlanLoops(source, target);
  if (loops.empty) return;
  Rows rows = InnerRows(loops, element_bytes);
  const bool is_one_loop = rows.row_bytes == element_bytes || loops.rank == 1;
  ForEachRun(loops, is_one_loop ? 1 : 2, [&](const char* from, char* to) {
    rows.from = from;
    rows.to = to;
    if (rows.are_allowed()) {
      add(rows);
      return true;
    }
    for (uint64_t row = 0; row < rows.row_count; ++row) {
      Rows one = rows;
      // The pitch of rows that run backwards is a negative number.
      one.from += static_cast<int64_t>(row * rows.from_pitch);
      one.to += static_cast<int64_t>(row * rows.to_pitch);
      one.from_pitch = one.to_pitch = one.row_bytes;
      one.row_count = 1;
      add(one);
    }
    return true;
  });
}

}  // namespace

std::vector<Box> CutBox(const ConstArrayView& array, const Box& box,
                        uint64_t byte_count_max) {
  if (IsEmpty(box)) return {};
  const std::vector<int> order = MemoryOrder(array.strides);
  std::vector<Box> boxes;
  std::vector<Box> left = {box};
  while (!left.empty()) {
    Box next = std::move(left.back());
    left.pop_back();
    const uint64_t byte_count = ByteCountOf(array.dtype, next.shape);
    const auto cut = std::ranges::find_if(
        order, [&](int dim) { return next.shape[dim] > 1; });
    if (byte_count <= byte_count_max || cut == order.end()) {
      boxes.push_back(std::move(next));
      continue;
    }
    // As many rows as fit, or one row, which is then cut further.
    const uint64_t row_bytes =
        byte_count / static_cast<uint64_t>(next.shape[*cut]);
    const int64_t rows =
        static_cast<int64_t>(std::max<uint64_t>(1, byte_count_max / row_bytes));
    Box rest = next;
    rest.origin[*cut] += rows;
    rest.shape[*cut] -= rows;
    next.shape[*cut] = rows;
    left.push_back(std::move(rest));
    left.push_back(std::move(next));
  }
  return boxes;
}

BoxRows RowsOf(const ConstArrayView& array, const Box& box, char* host) {
  BoxRows rows;
  rows.view.dtype = array.dtype;
  rows.view.shape = box.shape;
  rows.view.strides = Shape(box.shape.size());
  if (IsEmpty(box)) {
    rows.view.data = host;
    return rows;
  }
  const int64_t element_bytes = static_cast<int64_t>(DTypeBytes(array.dtype));
  ConstArrayView source = Subview(array, box);
  int64_t end = element_bytes;  // of the compact memory so far
  int64_t first = 0;            // where its first element is
  const std::vector<int> order = MemoryOrder(array.strides);
  for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
    int64_t& stride = rows.view.strides[*dim];
    if (array.strides[*dim] == 0) {
      source.shape[*dim] = 1;
      continue;
    }
    // A dimension that runs backwards does so here, too.
    stride = array.strides[*dim] < 0 ? -end : end;
    if (stride < 0) first += end * (box.shape[*dim] - 1);
    end *= box.shape[*dim];
  }
  rows.view.data = host + first;

  ArrayView target{array.dtype, host + first, source.shape, rows.view.strides};
  for (size_t dim = 0; dim < target.shape.size(); ++dim) {
    // Strides of single elements do not matter, but zero is not allowed.
    if (target.shape[dim] == 1) target.strides[dim] = element_bytes;
  }
  ForEachRows(source, target, [&](const Rows& found) {
    rows.copies.push_back({AddressOf(found.from), found.from_pitch, found.to,
                           found.to_pitch, found.row_bytes, found.row_count});
  });
  return rows;
}

std::vector<DeviceRowCopy> RowsBetween(const ConstArrayView& source,
                                       const ConstArrayView& target) {
  std::vector<DeviceRowCopy> copies;
  const ArrayView written{target.dtype,
                          reinterpret_cast<char*>(AddressOf(target.data)),
                          target.shape, target.strides};
  ForEachRows(source, written, [&](const Rows& found) {
    copies.push_back({AddressOf(found.from), found.from_pitch,
                      AddressOf(found.to), found.to_pitch, found.row_bytes,
                      found.row_count});
  });
  return copies;
}

}  // namespace holdfast
