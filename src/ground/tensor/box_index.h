// BoxIndex: finds which of many boxes in one array overlap a given box, and
// checks whether the boxes cover the array exactly once.
//
// Boxes are sorted along the axis that separates most of them, so the usual
// grids of shards cost a binary search and a short scan.
// Thread-safety: immutable. Units: elements.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ground/tensor/box.h"

namespace holdfast {

class BoxIndex {
 public:
  // REQUIRES: equal rank; origins >= 0. Empty boxes overlap nothing.
  explicit BoxIndex(std::vector<Box> boxes);

  size_t size() const { return boxes_.size(); }
  const Box& box(size_t i) const { return boxes_[i]; }

  // Calls fn(box index, common part) for each box that shares elements with
  // `box`. REQUIRES: the same rank.
  void ForEachOverlap(
      const Box& box,
      const std::function<void(size_t i, const Box& common)>& fn) const;

  // Returns ok if every element of an array of `shape` is in exactly one box.
  // Otherwise returns InvalidArgument, which says which boxes stick out or
  // overlap, or how many elements are in no box.
  Status CheckCover(const Shape& shape) const;
  // Like CheckCover, but elements may be in no box.
  Status CheckDisjoint(const Shape& shape) const;

 private:
  int64_t EndAt(size_t i) const;  // along the sorted axis

  std::vector<Box> boxes_;
  size_t axis_ = 0;
  std::vector<size_t> order_;      // box indices by origin on axis_
  std::vector<int64_t> ends_max_;  // of order_[0..i] on axis_
};

}  // namespace holdfast
