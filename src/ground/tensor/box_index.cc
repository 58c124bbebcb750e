#include "ground/tensor/box_index.h"

#include <algorithm>
#include <numeric>

#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

// Returns the axis with the most distinct origins: sorting along it leaves the
// fewest boxes to scan for a query.
size_t ChooseAxis(const std::vector<Box>& boxes) {
  const size_t rank = boxes.empty() ? 0 : boxes[0].origin.size();
  size_t best = 0, best_count = 0;
  std::vector<int64_t> origins(boxes.size());
  for (size_t axis = 0; axis < rank; ++axis) {
    for (size_t i = 0; i < boxes.size(); ++i) {
      origins[i] = boxes[i].origin[axis];
    }
    std::sort(origins.begin(), origins.end());
    const size_t count =
        std::unique(origins.begin(), origins.end()) - origins.begin();
    if (count > best_count) {
      best = axis;
      best_count = count;
    }
  }
  return best;
}

bool IsInside(const Box& box, const Shape& shape) {
  if (box.origin.size() != shape.size() || box.shape.size() != shape.size()) {
    return false;
  }
  for (size_t d = 0; d < shape.size(); ++d) {
    if (box.origin[d] < 0 || box.shape[d] < 0 || box.origin[d] > shape[d] ||
        box.shape[d] > shape[d] - box.origin[d]) {
      return false;
    }
  }
  return true;
}

}  // namespace

BoxIndex::BoxIndex(std::vector<Box> boxes)
    : boxes_(std::move(boxes)), axis_(ChooseAxis(boxes_)) {
  const size_t rank = boxes_.empty() ? 0 : boxes_[0].origin.size();
  order_.resize(boxes_.size());
  std::iota(order_.begin(), order_.end(), size_t{0});
  if (rank == 0) return;
  std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) {
    return boxes_[a].origin[axis_] < boxes_[b].origin[axis_];
  });
  ends_max_.resize(boxes_.size());
  int64_t end_max = 0;
  for (size_t i = 0; i < order_.size(); ++i) {
    end_max = std::max(end_max, EndAt(order_[i]));
    ends_max_[i] = end_max;
  }
}

int64_t BoxIndex::EndAt(size_t i) const {
  return boxes_[i].origin[axis_] + boxes_[i].shape[axis_];
}

void BoxIndex::ForEachOverlap(
    const Box& box,
    const std::function<void(size_t i, const Box& common)>& fn) const {
  if (boxes_.empty()) return;
  if (box.origin.empty()) {  // rank 0: every box is the one element
    for (size_t i = 0; i < boxes_.size(); ++i) fn(i, box);
    return;
  }
  const int64_t begin = box.origin[axis_];
  const int64_t end = begin + box.shape[axis_];
  auto stop = std::lower_bound(order_.begin(), order_.end(), end,
                               [&](size_t i, int64_t wanted) {
                                 return boxes_[i].origin[axis_] < wanted;
                               });
  // Boxes are sorted by origin, so the scan goes backwards from the first one
  // that begins after the query. A long box may begin far earlier; ends_max_
  // shows when no earlier box can reach the query.
  for (size_t at = stop - order_.begin(); at > 0; --at) {
    if (ends_max_[at - 1] <= begin) break;  // nor does any earlier box
    const size_t i = order_[at - 1];
    if (EndAt(i) <= begin) continue;
    if (const auto common = Intersect(boxes_[i], box)) fn(i, *common);
  }
}

Status BoxIndex::CheckDisjoint(const Shape& shape) const {
  for (const Box& box : boxes_) {
    if (!IsInside(box, shape)) {
      return InvalidArgumentError("shard " + BoxToString(box) +
                                  " is not inside the shape " +
                                  ShapeToString(shape));
    }
  }
  for (size_t i = 0; i < boxes_.size(); ++i) {
    size_t other = i;
    ForEachOverlap(boxes_[i], [&](size_t j, const Box&) {
      if (j != i) other = j;
    });
    if (other != i) {
      return InvalidArgumentError("shards " + BoxToString(boxes_[i]) + " and " +
                                  BoxToString(boxes_[other]) + " overlap");
    }
  }
  return Status();
}

Status BoxIndex::CheckCover(const Shape& shape) const {
  HF_RETURN_IF_ERROR(CheckDisjoint(shape));
  // Wide enough for any number of boxes.
  unsigned __int128 element_count = 0;
  for (const Box& box : boxes_) element_count += ElementCount(box.shape);
  // Disjoint boxes inside the shape hold at most its element count, so equal
  // counts mean that no element is missing.
  const int64_t want = ElementCount(shape);
  const int64_t got = static_cast<int64_t>(element_count);
  if (got == want) return Status();
  return InvalidArgumentError("the shards leave out " +
                              std::to_string(want - got) +
                              " elements of the shape " + ShapeToString(shape));
}

}  // namespace holdfast
