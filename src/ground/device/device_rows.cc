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

void AddCopy(const RowCopy& copy, std::vector<RowCopy>& copies) {
  // Rows of an array that repeats elements may overlap.
  const bool is_pitch_allowed = copy.device_pitch >= copy.row_bytes &&
                                copy.device_pitch <= kDevicePitchMax;
  if (copy.row_count == 1 || is_pitch_allowed) {
    copies.push_back(copy);
    return;
  }
  for (uint64_t row = 0; row < copy.row_count; ++row) {
    RowCopy one = copy;
    one.device += row * copy.device_pitch;
    one.host += row * copy.host_pitch;
    one.row_count = 1;
    copies.push_back(one);
  }
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
  const StridedLoops loops = PlanLoops(source, target);
  const LoopDim& inner = loops.inner();
  if (inner.source_stride != element_bytes && inner.extent > 1) {
    ForEachRun(loops, 1, [&](const char* from, char* to) {
      AddCopy({AddressOf(from), static_cast<uint64_t>(inner.source_stride), to,
               static_cast<uint64_t>(inner.target_stride),
               static_cast<uint64_t>(element_bytes),
               static_cast<uint64_t>(inner.extent)},
              rows.copies);
      return true;
    });
    return rows;
  }
  const auto row_bytes = static_cast<uint64_t>(inner.extent * element_bytes);
  const int row_rank = loops.rank > 1 ? 2 : 1;
  ForEachRun(loops, row_rank, [&](const char* from, char* to) {
    RowCopy copy{AddressOf(from), row_bytes, to, row_bytes, row_bytes, 1};
    if (row_rank == 2) {
      const LoopDim& outer = loops.dims[loops.rank - 2];
      copy.device_pitch = static_cast<uint64_t>(outer.source_stride);
      copy.host_pitch = static_cast<uint64_t>(outer.target_stride);
      copy.row_count = static_cast<uint64_t>(outer.extent);
    }
    AddCopy(copy, rows.copies);
    return true;
  });
  return rows;
}

}  // namespace holdfast
