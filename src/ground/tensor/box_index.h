// BoxIndex: finds, of many boxes in one array, those that touch a given box,
// and tells whether the boxes cover the array exactly once.
//
// Boxes are sorted along the axis that tells most of them apart, so that the
// usual grids of shards cost a binary search and a short scan.
// Thread-safety: immutable. Units: elements.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ground/tensor/box.h"

namespace holdfast {

class BoxIndex {
 public:
  // REQUIRES: equal rank; origins >= 0. Empty boxes touch nothing.
  explicit BoxIndex(std::vector<Box> boxes);

  size_t size() const { return boxes_.size(); }
  const Box& box(size_t i) const { return boxes_[i]; }

  // Calls fn(number of the box, common part) for each box that has elements in
  // common with `box`. REQUIRES: the same rank.
  void ForEachOverlap(
      const Box& box,
      const std::function<void(size_t i, const Box& common)>& fn) const;

  // Ok when every element of an array of `shape` is in exactly one box;
  // otherwise InvalidArgument says which boxes stick out, overlap, or how many
  // elements are in none.
  Status CheckCover(const Shape& shape) const;
  // The same for "at most one box".
  Status CheckDisjoint(const Shape& shape) const;

 private:
  int64_t EndAt(size_t i) const;  // on the sorted axis

  std::vector<Box> boxes_;
  size_t axis_ = 0;
  std::vector<size_t> order_;      // box numbers by origin on axis_
  std::vector<int64_t> ends_max_;  // of order_[0..i] on axis_
};

}  // namespace holdfast
