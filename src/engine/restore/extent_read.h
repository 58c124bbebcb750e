// Reads boxes out of extents: decides which ranges of the files are read, and
// how their bytes get to their targets.
//
// A box is cut along the axis with the largest stride in the file until each
// part is one range of the file that is worth reading completely: gaps of up to
// kGapBytesMax between wanted rows are read and dropped, larger ones are
// skipped. If the target has the elements in the same order as the file, the
// range is read straight into the target's memory; otherwise into scratch
// memory, from where it is copied, cast or byte-swapped.
// Thread-safety: ReadExtentBox from any thread; each thread needs its own
// scratch. Units: bytes; elements in boxes.
// Errors: as Store.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/restore/raw_array.h"
#include "ground/base/bytes.h"
#include "ground/base/cancel.h"
#include "stores/storage/store.h"

namespace holdfast {

// Returns the number of bytes in the file from the start of the box's first
// element to the end of its last; nullopt on overflow. REQUIRES: the box is not
// empty.
std::optional<uint64_t> ExtentSpan(const Shape& shape, const Shape& strides,
                                   size_t element_bytes);

// Returns the strides of the extent's elements in the file: the given ones, or
// those of C order.
Shape ExtentStrides(const Extent& extent, size_t element_bytes);

// Cuts `box` into parts, along the axis with the largest stride first. A part
// spans at most about `bytes_max` bytes of the file, but has at least one
// element.
std::vector<Box> CutBox(const Box& box, const Shape& strides,
                        size_t element_bytes, uint64_t bytes_max);

struct ExtentScratch {
  Buffer span;
  Buffer swapped;
};

struct ExtentRead {
  const Extent* extent = nullptr;
  DType dtype = DType::kUint8;  // of the extent's elements
  Box box;                      // in the leaf, inside the extent's box
  ArrayView target;             // has the box's shape
};

// Returns true if the elements of a box of the extent, in C order, are a range
// of its file exactly as they are in memory: no gaps, no bytes to swap, no bits
// to clear.
bool IsPlainRange(const Extent& extent, DType dtype, const Box& box);
// Returns the offset, in the extent's file, of the first element of a box of
// the array.
uint64_t OffsetInFile(const Extent& extent, DType dtype, const Box& box);

// Returns true if the complete read goes straight into the target's memory.
bool ReadsInPlace(const ExtentRead& read);

// Reads the box, and returns the number of bytes that were read.
// `scratch_bytes_max` limits each of the two scratch buffers, which hold at
// least one element.
Result<uint64_t> ReadExtentBox(Store& store, const ExtentRead& read,
                               uint64_t scratch_bytes_max,
                               ExtentScratch& scratch,
                               const CancelToken& cancel);

}  // namespace holdfast
