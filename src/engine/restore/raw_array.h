// RawArray: an array whose elements are stored in files as they are in memory,
// box by box (Extents), or come from its own reader. Shared by safetensors, npz
// and torch's distributed checkpoints.
//
// Thread-safety: immutable; readers are called from several threads. Ownership:
// as documented for the members. Units: elements; bytes where named so.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ground/tensor/box_index.h"
#include "holdfast/tree.h"

namespace holdfast {

// The elements of one box of an array, little endian unless `is_big_endian`.
struct Extent {
  Box box;
  std::string file;     // relative path in the directory: the store's key
  uint64_t offset = 0;  // the box's first element, in bytes
  // Strides of the box's elements in the file, in bytes, not negative. Empty: C
  // order without gaps.
  Shape strides;
  bool is_big_endian = false;
};

struct RawArray {
  DType dtype = DType::kUint8;
  Shape shape;
  // Disjoint. Reading elements outside all boxes is refused.
  std::vector<Extent> extents;
  std::unique_ptr<const BoxIndex> boxes;  // of the extents, if several
  // For elements that are not stored in plain form (deflated, packed): the
  // reader returns them, and extents are empty. It is asked for one target
  // after another, for each in boxes of a few MiB, in C order.
  std::shared_ptr<const ArrayReader> reader;

  // Calls fn(extent, common part) for each extent that overlaps `box`.
  void ForEachExtent(const Box& box,
                     const std::function<void(const Extent& extent,
                                              const Box& common)>& fn) const;
};

}  // namespace holdfast
