// Shapes, strided views of host memory, and Array, an owned host array.
//
// Units: shapes and origins in elements, outermost dimension first; strides in
// bytes (may be negative or zero in a source). Rank is at most kRankMax.
// Ownership: a view borrows its memory; an Array shares it.
// Thread-safety: values; the memory behind a view follows the caller's rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/dtype.h"
#include "holdfast/status.h"

namespace holdfast {

using Shape = std::vector<int64_t>;
inline constexpr int kRankMax = 32;

// Product of the extents; nullopt-free: saturates at INT64_MAX on overflow.
int64_t ElementCount(const Shape& shape);
// Strides in bytes of a C-order array of this shape.
Shape ContiguousStrides(const Shape& shape, size_t element_bytes);
// "(2, 3)", "()", as Python prints a tuple of ints.
std::string ShapeToString(const Shape& shape);

struct ConstArrayView {
  DType dtype = DType::kUint8;
  const char* data = nullptr;
  Shape shape;
  Shape strides;  // bytes, same rank as shape
};

struct ArrayView {
  DType dtype = DType::kUint8;
  char* data = nullptr;
  Shape shape;
  Shape strides;  // bytes, same rank as shape

  operator ConstArrayView() const {  // NOLINT: a view of more is a view of less
    return {dtype, data, shape, strides};
  }
};

// True when the elements lie in C order without gaps.
bool IsContiguous(const ConstArrayView& view);

// A host array with shared ownership of its memory.
class Array {
 public:
  Array() = default;
  // C-order array with uninitialised elements; memory is touched lazily.
  // REQUIRES: every extent >= 0. ResourceExhausted when memory is short.
  static Result<Array> Allocate(DType dtype, Shape shape);
  // Copies `bytes` (C order, little endian). REQUIRES: exact size.
  static Array FromBytes(DType dtype, Shape shape, const void* bytes);
  // Borrows memory that `owner` keeps alive (null owner: the caller does).
  static Array Borrow(ConstArrayView view, std::shared_ptr<const void> owner);

  DType dtype() const { return view_.dtype; }
  const Shape& shape() const { return view_.shape; }
  int64_t element_count() const { return ElementCount(view_.shape); }
  // Bytes of the elements themselves, whatever the strides.
  size_t byte_count() const;
  const ConstArrayView& view() const { return view_; }
  // Only for an Array from Allocate/FromBytes whose owner is not shared yet.
  ArrayView mutable_view();

 private:
  ConstArrayView view_;
  std::shared_ptr<const void> owner_;
};

}  // namespace holdfast
