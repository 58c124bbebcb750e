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

// Returns the box that covers an entire array.
Box BoxOf(const Shape& shape);
bool IsEmpty(const Box& box);
// Returns the common elements, or nullopt if the boxes have no common element.
// REQUIRES: equal rank.
std::optional<Box> Intersect(const Box& a, const Box& b);
// Returns the box in coordinates relative to `origin`; an empty origin is all
// zeros.
Box Relative(Box box, const Shape& origin);
// The inverse of Relative: converts a box relative to `origin` back.
Box Absolute(Box box, const Shape& origin);
// Returns text such as "[0:2, 4:8]".
std::string BoxToString(const Box& box);

// Returns the part of `view` inside `box`. REQUIRES: box within view.
ArrayView Subview(const ArrayView& view, const Box& box);
ConstArrayView Subview(const ConstArrayView& view, const Box& box);

}  // namespace holdfast
