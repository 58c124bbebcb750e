// Box: a hyper-rectangle of elements. Thread-safety: values.
// Units: elements, outermost dimension first.
#pragma once

#include <optional>

#include "holdfast/tensor.h"

namespace holdfast {

struct Box {
  Shape origin;
  Shape shape;

  bool operator==(const Box&) const = default;
};

// The box of a whole array.
Box BoxOf(const Shape& shape);
bool IsEmpty(const Box& box);
// Nullopt when nothing is common. REQUIRES: equal rank.
std::optional<Box> Intersect(const Box& a, const Box& b);
// The box seen from `origin` as zero; an empty origin is all zeros.
Box Relative(Box box, const Shape& origin);
// Its inverse: a box seen from `origin`, where it lies.
Box Absolute(Box box, const Shape& origin);
// "[0:2, 4:8]".
std::string BoxToString(const Box& box);

// The part of `view` inside `box`. REQUIRES: box within view.
ArrayView Subview(const ArrayView& view, const Box& box);
ConstArrayView Subview(const ConstArrayView& view, const Box& box);

}  // namespace holdfast
