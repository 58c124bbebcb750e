#include "cli/slice.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <string>

#include "cli/units.h"

namespace holdfast::cli {
namespace {

constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();

std::string_view Trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> TrimmedParts(std::string_view text,
                                           char separator) {
  std::vector<std::string_view> parts = Split(text, separator);
  for (std::string_view& part : parts) part = Trim(part);
  return parts;
}

// Parses an index, with an optional '+' as in Python.
std::optional<int64_t> ParseIndexNumber(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') {
    text.remove_prefix(1);
  }
  return ParseInt(text, -kInt64Max, kInt64Max);
}

Result<AxisSelection> ParseIndex(std::string_view text, size_t axis,
                                 int64_t extent) {
  if (text == "None" || text == "newaxis" || text == "np.newaxis") {
    return InvalidArgumentError("newaxis is not supported in a slice");
  }
  const std::optional<int64_t> number = ParseIndexNumber(text);
  if (!number) {
    return InvalidArgumentError(
        Quoted(text) + " is not an index (want an integer, a:b:c or ...)");
  }
  const int64_t index = *number < 0 ? *number + extent : *number;
  if (index < 0 || index >= extent) {
    return OutOfRangeError(
        "index " + std::to_string(*number) + " is out of bounds for axis " +
        std::to_string(axis) + " with size " + std::to_string(extent));
  }
  return AxisSelection{.first = index, .step = 1, .count = 1, .dropped = true};
}

// Clips one bound of a slice as Python's slice.indices does.
int64_t ClipBound(int64_t bound, int64_t extent, bool backwards) {
  if (bound < 0) bound += extent;
  const int64_t low = backwards ? -1 : 0;
  const int64_t high = backwards ? extent - 1 : extent;
  return std::clamp(bound, low, std::max(low, high));
}

AxisSelection SliceIndices(const std::optional<int64_t>& start,
                           const std::optional<int64_t>& stop, int64_t step,
                           int64_t extent) {
  const bool backwards = step < 0;
  const int64_t first = start ? ClipBound(*start, extent, backwards)
                              : (backwards ? extent - 1 : 0);
  const int64_t end =
      stop ? ClipBound(*stop, extent, backwards) : (backwards ? -1 : extent);
  const int64_t distance = backwards ? first - end : end - first;
  const int64_t stride = backwards ? -step : step;
  AxisSelection axis{.first = first, .step = step};
  axis.count = distance <= 0 ? 0 : (distance - 1) / stride + 1;
  // A single element needs no step. A huge step could overflow later.
  if (axis.count <= 1) axis.step = 1;
  return axis;
}

Result<AxisSelection> ParseRange(std::string_view text, int64_t extent) {
  const std::vector<std::string_view> parts = TrimmedParts(text, ':');
  const Status bad =
      InvalidArgumentError(Quoted(text) + " is not a slice (want a:b:c)");
  if (parts.size() > 3) return bad;
  std::optional<int64_t> bounds[3];
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty()) continue;
    bounds[i] = ParseIndexNumber(parts[i]);
    if (!bounds[i]) return bad;
  }
  if (bounds[2] == 0) return InvalidArgumentError("slice step cannot be zero");
  return SliceIndices(bounds[0], bounds[1], bounds[2].value_or(1), extent);
}

Result<AxisSelection> ParseAxis(std::string_view text, size_t axis,
                                int64_t extent) {
  if (text.find(':') == std::string_view::npos) {
    return ParseIndex(text, axis, extent);
  }
  return ParseRange(text, extent);
}

AxisSelection WholeAxis(int64_t extent) {
  return {.first = 0, .step = 1, .count = extent};
}

// Replaces "..." by as many complete axes as are missing.
Result<std::vector<std::string_view>> ExpandEllipsis(
    std::vector<std::string_view> parts, size_t rank) {
  const auto is_ellipsis = [](std::string_view part) {
    return part == "..." || part == "Ellipsis";
  };
  const auto ellipses = std::count_if(parts.begin(), parts.end(), is_ellipsis);
  if (ellipses > 1) {
    return InvalidArgumentError("a slice can have only one ellipsis (...)");
  }
  const size_t index_count = parts.size() - static_cast<size_t>(ellipses);
  if (index_count > rank) {
    return InvalidArgumentError("too many indices: array has " +
                                std::to_string(rank) + " axes, got " +
                                std::to_string(index_count));
  }
  auto at = std::find_if(parts.begin(), parts.end(), is_ellipsis);
  if (at != parts.end()) at = parts.erase(at);
  parts.insert(at, rank - index_count, ":");
  return parts;
}

}  // namespace

Selection SelectAll(const Shape& shape) {
  Selection selection;
  for (const int64_t extent : shape) selection.push_back(WholeAxis(extent));
  return selection;
}

Result<Selection> ParseSlice(std::string_view text, const Shape& shape) {
  std::vector<std::string_view> parts = TrimmedParts(text, ',');
  // "[0,]" means "[0]". "[]" would be an empty list of indices, which is not a
  // slice.
  if (parts.size() > 1 && parts.back().empty()) parts.pop_back();
  auto expanded = ExpandEllipsis(std::move(parts), shape.size());
  if (!expanded.ok()) return expanded.status();
  Selection selection;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    auto parsed = ParseAxis((*expanded)[axis], axis, shape[axis]);
    if (!parsed.ok()) return parsed.status();
    selection.push_back(*parsed);
  }
  return selection;
}

std::optional<NameAndSlice> SplitName(std::string_view text) {
  if (!text.ends_with(']')) return std::nullopt;
  const size_t open = text.rfind('[');
  if (open == std::string_view::npos) return std::nullopt;
  return NameAndSlice{text.substr(0, open),
                      text.substr(open + 1, text.size() - open - 2)};
}

Shape SelectedShape(const Selection& selection) {
  Shape shape;
  for (const AxisSelection& axis : selection) {
    if (!axis.dropped) shape.push_back(axis.count);
  }
  return shape;
}

Box BoundingBox(const Selection& selection) {
  Box box;
  for (const AxisSelection& axis : selection) {
    assert(axis.count > 0);
    const int64_t last = axis.first + (axis.count - 1) * axis.step;
    const int64_t low = std::min(axis.first, last);
    box.origin.push_back(low);
    box.shape.push_back(std::max(axis.first, last) - low + 1);
  }
  return box;
}

ConstArrayView SelectFromBox(const Selection& selection, const Shape& origin,
                             const ConstArrayView& box) {
  assert(selection.size() == box.shape.size());
  ConstArrayView view{.dtype = box.dtype, .data = box.data};
  for (size_t axis = 0; axis < selection.size(); ++axis) {
    const AxisSelection& wanted = selection[axis];
    view.data += (wanted.first - origin[axis]) * box.strides[axis];
    if (wanted.dropped) continue;
    view.shape.push_back(wanted.count);
    view.strides.push_back(box.strides[axis] * wanted.step);
  }
  return view;
}

AxisSelection Compose(const AxisSelection& whole, const AxisSelection& part) {
  return {.first = whole.first + part.first * whole.step,
          .step = whole.step * part.step,
          .count = part.count,
          .dropped = whole.dropped};
}

}  // namespace holdfast::cli
