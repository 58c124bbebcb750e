// RawArray: an array whose elements lie in files as they are in memory, box by
// box (Extents), or come from a reader of their own. The common part of
// safetensors, npz and torch's distributed checkpoints.
//
// Thread-safety: immutable; readers are called from several threads.
// Ownership: as its members say. Units: elements; bytes where named so.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ground/tensor/box_index.h"
#include "holdfast/tree.h"

namespace holdfast {

// Elements of one box of an array, little endian unless `is_big_endian`.
struct Extent {
  Box box;
  std::string file;     // relative path in the directory: the store's key
  uint64_t offset = 0;  // of the box's first element, in bytes
  // Between the box's elements in the file, in bytes, none negative. Empty: C
  // order without gaps.
  Shape strides;
  bool is_big_endian = false;
};

struct RawArray {
  DType dtype = DType::kUint8;
  Shape shape;
  // Disjoint. Elements that no box covers are refused when they are read.
  std::vector<Extent> extents;
  std::unique_ptr<const BoxIndex> boxes;  // of the extents, when several
  // Where the elements do not lie in a file as they are (deflated, packed):
  // this gives them; extents are empty then. It is asked for boxes in C order,
  // a few MiB at a time, for one target after the other.
  std::shared_ptr<const ArrayReader> reader;

  // Calls fn(extent, common part) for each extent that has some of `box`.
  void ForEachExtent(const Box& box,
                     const std::function<void(const Extent& extent,
                                              const Box& common)>& fn) const;
};

}  // namespace holdfast
