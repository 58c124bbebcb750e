#include "ground/tensor/box.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace holdfast {
namespace {

// Returns one past the last index along dimension `i`. Saturates, because boxes
// from a file may not have been checked against an array yet.
int64_t EndOf(const Box& box, size_t i) {
  int64_t end = 0;
  return __builtin_add_overflow(box.origin[i], box.shape[i], &end)
             ? std::numeric_limits<int64_t>::max()
             : end;
}

template <typename View>
View SubviewOf(const View& view, const Box& box) {
  const size_t rank = view.shape.size();
  assert(box.origin.size() == rank && box.shape.size() == rank);
  View part = view;
  part.shape = box.shape;
  // The elements of an empty box have no address.
  if (IsEmpty(box)) return part;
  for (size_t i = 0; i < rank; ++i) {
    assert(box.origin[i] >= 0 && box.origin[i] <= view.shape[i] - box.shape[i]);
    part.data += box.origin[i] * view.strides[i];
  }
  return part;
}

}  // namespace

Box BoxOf(const Shape& shape) { return {Shape(shape.size(), 0), shape}; }

bool IsEmpty(const Box& box) {
  return std::any_of(box.shape.begin(), box.shape.end(),
                     [](int64_t extent) { return extent <= 0; });
}

std::optional<Box> Intersect(const Box& a, const Box& b) {
  const size_t rank = a.shape.size();
  assert(b.shape.size() == rank);
  Box common{Shape(rank), Shape(rank)};
  for (size_t i = 0; i < rank; ++i) {
    const int64_t begin = std::max(a.origin[i], b.origin[i]);
    const int64_t end = std::min(EndOf(a, i), EndOf(b, i));
    if (end <= begin) return std::nullopt;
    common.origin[i] = begin;
    common.shape[i] = end - begin;
  }
  return common;
}

Box Relative(Box box, const Shape& origin) {
  for (size_t d = 0; d < origin.size(); ++d) box.origin[d] -= origin[d];
  return box;
}

Box Absolute(Box box, const Shape& origin) {
  for (size_t d = 0; d < origin.size(); ++d) box.origin[d] += origin[d];
  return box;
}

std::string BoxToString(const Box& box) {
  std::string text = "[";
  for (size_t i = 0; i < box.shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(box.origin[i]) + ":" + std::to_string(EndOf(box, i));
  }
  return text + "]";
}

ArrayView Subview(const ArrayView& view, const Box& box) {
  return SubviewOf(view, box);
}

ConstArrayView Subview(const ConstArrayView& view, const Box& box) {
  return SubviewOf(view, box);
}

}  // namespace holdfast
