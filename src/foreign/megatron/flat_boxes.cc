#include "foreign/megatron/flat_boxes.h"

#include <cassert>

namespace holdfast::megatron {
namespace {

class Decomposer {
 public:
  Decomposer(const Shape& shape, int64_t range_start)
      : shape_(shape),
        strides_(ContiguousStrides(shape, 1)),
        range_start_(range_start) {}

  // Adds the elements [start, stop) below `prefix`, at least one.
  void Add(Shape prefix, int64_t base, int64_t start, int64_t stop) {
    const size_t axis = prefix.size();
    if (axis == shape_.size()) return Emit(prefix, 0, 1, base + start);
    const int64_t row = strides_[axis];
    const int64_t first = (start + row - 1) / row;  // of complete rows
    const int64_t last = stop / row;
    if (first > last) {  // inside a row
      prefix.push_back(last);
      return Add(prefix, base + last * row, start - last * row,
                 stop - last * row);
    }
    if (start < first * row) {
      Shape head = prefix;
      head.push_back(first - 1);
      Add(head, base + (first - 1) * row, start - (first - 1) * row, row);
    }
    if (first < last) Emit(prefix, first, last - first, base + first * row);
    if (last * row < stop) {
      prefix.push_back(last);
      Add(prefix, base + last * row, 0, stop - last * row);
    }
  }

  std::vector<FlatBox> Take() { return std::move(boxes_); }

 private:
  // Emits rows [first, first + count) below the prefix.
  void Emit(const Shape& prefix, int64_t first, int64_t count, int64_t at) {
    FlatBox flat = {BoxOf(shape_), at - range_start_};
    for (size_t i = 0; i < prefix.size(); ++i) {
      flat.box.origin[i] = prefix[i];
      flat.box.shape[i] = 1;
    }
    if (prefix.size() < shape_.size()) {
      flat.box.origin[prefix.size()] = first;
      flat.box.shape[prefix.size()] = count;
    }
    boxes_.push_back(std::move(flat));
  }

  const Shape& shape_;
  const Shape strides_;
  const int64_t range_start_;
  std::vector<FlatBox> boxes_;
};

}  // namespace

std::vector<FlatBox> FlatBoxes(const Shape& shape, const FlatRange& range) {
  assert(0 <= range.start && range.start <= range.stop &&
         range.stop <= ElementCount(shape));
  if (range.start == range.stop) return {};
  Decomposer decomposer(shape, range.start);
  decomposer.Add({}, 0, range.start, range.stop);
  return decomposer.Take();
}

ConstArrayView FlatView(const ConstArrayView& flat, const FlatBox& box) {
  assert(flat.shape.size() == 1);
  Shape strides = ContiguousStrides(box.box.shape, 1);
  for (int64_t& stride : strides) stride *= flat.strides[0];
  return {flat.dtype, flat.data + box.start * flat.strides[0], box.box.shape,
          std::move(strides)};
}

}  // namespace holdfast::megatron
