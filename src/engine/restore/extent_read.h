// Reading boxes out of extents: which ranges of the files are read, and how
// their bytes come to their places.
//
// A box is cut along the axis of the largest stride in the file until each part
// is one range of the file that is worth reading whole: gaps of up to
// kGapBytesMax between wanted rows are read and dropped, larger ones skipped.
// Where the elements lie in the target as in the file the range is read
// straight into the target's memory, else into scratch memory and copied, cast
// or byte-swapped from there.
// Thread-safety: ReadExtentBox from any thread; scratch is one thread's own.
// Units: bytes; elements in boxes. Errors: as Store.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/restore/raw_array.h"
#include "ground/base/bytes.h"
#include "ground/base/cancel.h"
#include "stores/storage/store.h"

namespace holdfast {

// Bytes from the box's first element to the end of its last in the file;
// nullopt on overflow. REQUIRES: not empty.
std::optional<uint64_t> ExtentSpan(const Shape& shape, const Shape& strides,
                                   size_t element_bytes);

// Strides of the extent's elements in the file, given ones or C order.
Shape ExtentStrides(const Extent& extent, size_t element_bytes);

// Parts of `box`, each of about bytes_max bytes in the file at most (an element
// at least), cut along the axis of the largest stride first.
std::vector<Box> CutBox(const Box& box, const Shape& strides,
                        size_t element_bytes, uint64_t bytes_max);

struct ExtentScratch {
  Buffer span;
  Buffer swapped;
};

struct ExtentRead {
  const Extent* extent = nullptr;
  DType dtype = DType::kUint8;  // of the extent's elements
  Box box;                      // of the leaf, inside the extent's
  ArrayView target;             // of the box's shape
};

// True when the elements of a box of the extent, C order, are a range of its
// file as they are in memory: no gaps, no bytes to swap, no bits to clear.
bool IsPlainRange(const Extent& extent, DType dtype, const Box& box);
// Where the first element of a box of the array lies in the extent's file.
uint64_t OffsetInFile(const Extent& extent, DType dtype, const Box& box);

// True when the whole of the read goes straight into the target's memory.
bool ReadsInPlace(const ExtentRead& read);

// Returns the bytes that were read. `scratch_bytes_max` bounds each of the two
// buffers (an element at least).
Result<uint64_t> ReadExtentBox(Store& store, const ExtentRead& read,
                               uint64_t scratch_bytes_max,
                               ExtentScratch& scratch,
                               const CancelToken& cancel);

}  // namespace holdfast
