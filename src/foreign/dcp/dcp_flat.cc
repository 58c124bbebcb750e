#include "foreign/dcp/dcp_flat.h"

#include <algorithm>

namespace holdfast {
namespace {

// Returns the box of `count` steps along `axis` that starts with element `at`.
// It covers the later axes completely.
Box BoxAt(const Shape& shape, int64_t at, size_t axis, int64_t count) {
  Box box{Shape(shape.size(), 0), shape};
  for (size_t i = shape.size(); i-- > 0;) {
    if (i <= axis) {
      box.origin[i] = at % shape[i];
      box.shape[i] = i == axis ? count : 1;
    }
    at /= shape[i];
  }
  return box;
}

}  // namespace

void ForEachBoxOfRun(const Shape& shape, int64_t begin, int64_t end,
                     const std::function<void(const Box&, int64_t)>& fn) {
  if (begin == end) return;
  if (shape.empty()) {
    fn({}, 0);
    return;
  }
  int64_t at = begin;
  while (at < end) {
    // Finds the outermost axis along which a complete step begins at `at` and
    // ends before `end`.
    size_t axis = shape.size() - 1;
    int64_t step = 1;
    while (axis > 0 && at % (step * shape[axis]) == 0 &&
           end - at >= step * shape[axis]) {
      step *= shape[axis];
      --axis;
    }
    const int64_t position = at / step % shape[axis];
    const int64_t count = std::min(shape[axis] - position, (end - at) / step);
    fn(BoxAt(shape, at, axis, count), at);
    at += count * step;
  }
}

}  // namespace holdfast
