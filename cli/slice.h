// Parses slices in numpy's syntax: `w[0:2, :]`, `w[3]`, `w[..., 0]`, `w[::-2]`.
//
// A Selection says which indices of each axis are selected. Only its bounding
// box has to be read; the selection is then a strided view of that box.
// Thread-safety: values and pure functions.
// Ownership: views borrow the memory of the box.
// Units: elements, outermost axis first; view strides in bytes.
// Errors: InvalidArgument (not a slice, too many indices, zero step, newaxis),
// OutOfRange (an integer index beyond its axis).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "holdfast/status.h"
#include "holdfast/tensor.h"

namespace holdfast::cli {

// Indices first, first + step, ... (count of them) of one axis.
struct AxisSelection {
  int64_t first = 0;
  int64_t step = 1;
  int64_t count = 0;
  bool dropped = false;  // an integer index, which removes the axis

  bool operator==(const AxisSelection&) const = default;
};
using Selection = std::vector<AxisSelection>;  // one per axis of the array

Selection SelectAll(const Shape& shape);
// Parses a slice without brackets, such as "0:2, :". Axes that `text` does not
// mention are selected completely.
Result<Selection> ParseSlice(std::string_view text, const Shape& shape);

// "w[0:2]" -> {"w", "0:2"}: splits at the last '['. nullopt if `text` does not
// end in a bracketed part.
struct NameAndSlice {
  std::string_view name;
  std::string_view slice;
};
std::optional<NameAndSlice> SplitName(std::string_view text);

// Returns the shape of the selection, without dropped axes.
Shape SelectedShape(const Selection& selection);

// The smallest box around the selection. REQUIRES: no count is 0.
struct Box {
  Shape origin;
  Shape shape;
};
Box BoundingBox(const Selection& selection);

// Returns the selection as a view of `box`, whose first element is at `origin`
// of the array. REQUIRES: the selection is inside the box.
ConstArrayView SelectFromBox(const Selection& selection, const Shape& origin,
                             const ConstArrayView& box);

// Applies `part` to the indices that `whole` selects on an axis. REQUIRES: the
// indices of `part` are in [0, whole.count).
AxisSelection Compose(const AxisSelection& whole, const AxisSelection& part);

}  // namespace holdfast::cli
