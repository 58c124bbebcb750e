#include "cli/read_selection.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace holdfast::cli {
namespace {

// Boxes up to this size are read in one piece, which is cheaper than reading
// their corners separately.
constexpr int64_t kSmallBoxBytes = int64_t{32} << 20;
// The largest number of long axes for which only corners are read. Each axis
// doubles the number of corners.
constexpr int kCornerAxesMax = 5;

bool IsEmpty(const Selection& selection) {
  return std::any_of(selection.begin(), selection.end(),
                     [](const AxisSelection& axis) { return axis.count == 0; });
}

int64_t BoxBytes(DType dtype, const Shape& shape) {
  Shape with_element = shape;
  with_element.push_back(static_cast<int64_t>(DTypeBytes(dtype)));
  return ElementCount(with_element);
}

// Copies elements between views of equal shape.
void CopyElements(const ConstArrayView& source, const ArrayView& target,
                  size_t axis, const char* from, char* to) {
  if (axis == source.shape.size()) {
    std::memcpy(to, from, DTypeBytes(source.dtype));
    return;
  }
  for (int64_t i = 0; i < source.shape[axis]; ++i) {
    CopyElements(source, target, axis + 1, from + i * source.strides[axis],
                 to + i * target.strides[axis]);
  }
}

// The pieces of one axis that ReadEdges keeps, as parts of the axis' selection.
using Parts = std::vector<AxisSelection>;

Parts EdgeParts(const AxisSelection& axis, int64_t edge_count) {
  if (axis.count <= 2 * edge_count) return {{.first = 0, .count = axis.count}};
  return {{.first = 0, .count = edge_count},
          {.first = axis.count - edge_count, .count = edge_count}};
}

// Calls `visit` with every combination of one part per axis.
void ForEachChoice(
    const std::vector<Parts>& parts,
    const std::function<void(const std::vector<size_t>&)>& visit) {
  std::vector<size_t> choice(parts.size(), 0);
  while (true) {
    visit(choice);
    size_t axis = parts.size();
    while (axis > 0 && ++choice[axis - 1] == parts[axis - 1].size()) {
      choice[--axis] = 0;
    }
    if (axis == 0) return;
  }
}

// A corner: its selection in the array and its place in the target.
struct Corner {
  Selection source;
  Shape target_origin;  // of the axes that remain
};

Corner MakeCorner(const Selection& selection, const std::vector<Parts>& parts,
                  const std::vector<size_t>& choice) {
  Corner corner;
  for (size_t axis = 0; axis < selection.size(); ++axis) {
    const AxisSelection& part = parts[axis][choice[axis]];
    corner.source.push_back(Compose(selection[axis], part));
    if (selection[axis].dropped) continue;
    corner.target_origin.push_back(choice[axis] == 0 ? 0
                                                     : parts[axis][0].count);
  }
  return corner;
}

void PutCorner(const ConstArrayView& source, const Shape& origin,
               const ArrayView& target) {
  char* to = target.data;
  for (size_t axis = 0; axis < origin.size(); ++axis) {
    to += origin[axis] * target.strides[axis];
  }
  CopyElements(source, target, 0, source.data, to);
}

Result<Picture> EmptyPicture(DType dtype, const Selection& selection) {
  auto memory = Array::Allocate(dtype, SelectedShape(selection));
  if (!memory.ok()) return memory.status();
  const ConstArrayView view = memory->view();
  return Picture{std::move(*memory), view};
}

// Reads the complete leaf or a box of it.
Result<Array> ReadBoxOf(const Checkpoint& checkpoint, size_t leaf,
                        const Box& box) {
  if (box.shape == checkpoint.leaves()[leaf].shape) {
    return checkpoint.Read(leaf);
  }
  return checkpoint.ReadBox(leaf, box.origin, box.shape);
}

// Returns the axis along which slabs are cut: the first that has more than one
// index selected.
size_t SlabAxis(const Selection& selection) {
  size_t axis = 0;
  while (axis < selection.size() && selection[axis].count <= 1) ++axis;
  return axis;
}

// Returns how many indices of the axis, from `begin` on, the next slab gets.
int64_t SlabCount(const AxisSelection& axis, int64_t begin,
                  int64_t slab_count_max, int64_t chunk_extent) {
  const int64_t left = axis.count - begin;
  const int64_t count = std::min(left, slab_count_max);
  if (count == left || axis.step != 1 || chunk_extent <= 0) return count;
  const int64_t end = axis.first + begin + count;
  const int64_t aligned = end - end % chunk_extent;
  if (aligned > axis.first + begin) return aligned - axis.first - begin;
  // The slab would be smaller than a chunk. Read the complete chunk, so that it
  // is not decoded repeatedly.
  return std::min(left, aligned + chunk_extent - axis.first - begin);
}

}  // namespace

Result<Picture> ReadSelection(const Checkpoint& checkpoint, size_t leaf,
                              const Selection& selection) {
  const LeafInfo& info = checkpoint.leaves()[leaf];
  if (IsEmpty(selection)) {
    return EmptyPicture(info.dtype.value_or(DType::kUint8), selection);
  }
  const Box box = BoundingBox(selection);
  auto memory = ReadBoxOf(checkpoint, leaf, box);
  if (!memory.ok()) return memory.status();
  const ConstArrayView view =
      SelectFromBox(selection, box.origin, memory->view());
  return Picture{std::move(*memory), view};
}

Result<Picture> ReadEdges(const Checkpoint& checkpoint, size_t leaf,
                          const Selection& selection, int64_t edge_count) {
  const LeafInfo& info = checkpoint.leaves()[leaf];
  const DType dtype = info.dtype.value_or(DType::kUint8);
  if (IsEmpty(selection)) return EmptyPicture(dtype, selection);

  std::vector<Parts> parts;
  Shape shape;
  int long_axes = 0;
  for (const AxisSelection& axis : selection) {
    parts.push_back(EdgeParts(axis, edge_count));
    if (parts.back().size() > 1) ++long_axes;
    if (!axis.dropped) {
      shape.push_back(std::min(axis.count, 2 * edge_count));
    }
  }
  auto target = Array::Allocate(dtype, shape);
  if (!target.ok()) return target.status();
  const ArrayView target_view = target->mutable_view();

  const Box box = BoundingBox(selection);
  Array whole;
  const bool at_once = BoxBytes(dtype, box.shape) <= kSmallBoxBytes ||
                       long_axes > kCornerAxesMax;
  if (at_once) {
    auto read = ReadBoxOf(checkpoint, leaf, box);
    if (!read.ok()) return read.status();
    whole = std::move(*read);
  }

  Status status;
  ForEachChoice(parts, [&](const std::vector<size_t>& choice) {
    if (!status.ok()) return;
    const Corner corner = MakeCorner(selection, parts, choice);
    if (at_once) {
      PutCorner(SelectFromBox(corner.source, box.origin, whole.view()),
                corner.target_origin, target_view);
      return;
    }
    const auto picture = ReadSelection(checkpoint, leaf, corner.source);
    status = picture.status();
    if (!status.ok()) return;
    PutCorner(picture->view, corner.target_origin, target_view);
  });
  if (!status.ok()) return status;
  const ConstArrayView view = target->view();
  return Picture{std::move(*target), view};
}

Status ReadInSlabs(const Checkpoint& checkpoint, size_t leaf,
                   const Selection& selection, uint64_t ram_bytes_max,
                   const std::function<Status(const ConstArrayView&)>& take) {
  const LeafInfo& info = checkpoint.leaves()[leaf];
  if (IsEmpty(selection)) return Status();
  const size_t axis = SlabAxis(selection);
  // Measure the box that one index of the axis needs.
  Selection slab = selection;
  int64_t slab_count_max = 1;
  if (axis < selection.size()) {
    slab[axis].count = 1;
    const Box one = BoundingBox(slab);
    const int64_t step = std::abs(selection[axis].step);
    const auto budget =
        static_cast<int64_t>(std::min<uint64_t>(ram_bytes_max, INT64_MAX));
    const int64_t bytes =
        BoxBytes(info.dtype.value_or(DType::kUint8), one.shape);
    slab_count_max = std::max<int64_t>(1, budget / bytes / step);
  }
  int64_t begin = 0;
  const int64_t end = axis < selection.size() ? selection[axis].count : 1;
  while (begin < end) {
    int64_t count = 1;
    if (axis < selection.size()) {
      const int64_t chunk_extent =
          axis < info.chunk_shape.size() ? info.chunk_shape[axis] : 0;
      count = SlabCount(selection[axis], begin, slab_count_max, chunk_extent);
      slab[axis] = Compose(selection[axis], {.first = begin, .count = count});
    }
    const auto picture = ReadSelection(checkpoint, leaf, slab);
    if (!picture.ok()) return picture.status();
    const Status status = take(picture->view);
    if (!status.ok()) return status;
    begin += count;
  }
  return Status();
}

}  // namespace holdfast::cli
