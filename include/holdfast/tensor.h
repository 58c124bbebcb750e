// Shapes, strided views of host memory, and Array, an owned host array.
//
// Units: shapes and origins in elements, outermost dimension first; strides in
// bytes (may be negative or zero in a source). Rank is at most kRankMax.
// Ownership: a view borrows its memory; an Array shares it.
// Thread-safety: values; the caller synchronizes access to a view's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "holdfast/dtype.h"
#include "holdfast/export.h"
#include "holdfast/shape.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

inline constexpr int kRankMax = 32;

// Returns the product of the extents; INT64_MAX on overflow.
int64_t ElementCount(const Shape& shape);
// Returns the strides, in bytes, of a C-order array of this shape.
Shape ContiguousStrides(const Shape& shape, size_t element_bytes);
// Returns the shape as Python prints a tuple of ints: "(2, 3)", "()".
std::string ShapeToString(const Shape& shape);

struct ConstArrayView {
  DType dtype = DType::kUint8;
  const char* data = nullptr;
  Shape shape;
  Shape strides;  // bytes, same rank as shape

  // Returns the elements in C order, as values of a C++ type that DTypeOf
  // supports. InvalidArgument when T does not match the dtype, the view is not
  // contiguous, its memory is not aligned for T, or a bool is neither 0 nor 1.
  template <typename T>
  Result<std::span<const T>> As() const;
};

struct ArrayView {
  DType dtype = DType::kUint8;
  char* data = nullptr;
  Shape shape;
  Shape strides;  // bytes, same rank as shape

  operator ConstArrayView() const {  // NOLINT: only gives up write access
    return {dtype, data, shape, strides};
  }
  // Like ConstArrayView::As.
  template <typename T>
  Result<std::span<T>> As() const;
};

// Returns true if the elements are stored in C order without gaps.
bool IsContiguous(const ConstArrayView& view);
// Returns ok if ConstArrayView::As can return the view's elements as values of
// a C++ type with this dtype and alignment; otherwise the reason why not.
Status CheckElements(const ConstArrayView& view, DType dtype,
                     size_t alignment_bytes);

// A host array with shared ownership of its memory.
class Array {
 public:
  Array() = default;
  // Makes a C-order array with uninitialized elements, without touching its
  // memory. REQUIRES: every extent >= 0. ResourceExhausted when memory is
  // short.
  static Result<Array> Allocate(DType dtype, Shape shape);
  // Copies the elements from `bytes` (C order, little endian). REQUIRES:
  // `bytes` holds all elements of `shape`.
  static Array FromBytes(DType dtype, Shape shape, const void* bytes);
  // Copies a vector, span or std::array of a C++ type that DTypeOf supports.
  // The result has one dimension, or the given shape in C order;
  // InvalidArgument when that shape has a different number of elements. A
  // std::vector<bool> does not work, because it does not store its elements as
  // bools.
  template <typename Values>
  static Array Of(const Values& values);
  template <typename Values>
  static Result<Array> Of(const Values& values, Shape shape);
  // Refers to memory that `owner` keeps alive. If `owner` is null, the caller
  // must keep the memory alive.
  static Array Borrow(ConstArrayView view, std::shared_ptr<const void> owner);
  // Like Borrow, for memory that nobody can write to.
  static Array BorrowReadOnly(ConstArrayView view,
                              std::shared_ptr<const void> owner);

  // Makes an array that has a dtype and a shape, but no memory: its view's data
  // is null.
  static Array Outline(DType dtype, const Shape& shape);

  DType dtype() const { return view_.dtype; }
  const Shape& shape() const { return view_.shape; }
  int64_t element_count() const { return ElementCount(view_.shape); }
  // Returns the size of all elements, not counting gaps between them.
  size_t byte_count() const;
  const ConstArrayView& view() const { return view_; }
  bool is_read_only() const { return is_read_only_; }
  // Like ConstArrayView::As. The result is valid as long as an Array shares the
  // memory.
  template <typename T>
  Result<std::span<const T>> As() const {
    return view_.As<T>();
  }
  // REQUIRES: the Array comes from Allocate, FromBytes or Of, and no other
  // Array shares its memory yet.
  ArrayView mutable_view();

 private:
  static Result<Array> FromElements(DType dtype, Shape shape,
                                    const void* elements, size_t count);

  ConstArrayView view_;
  std::shared_ptr<const void> owner_;
  bool is_read_only_ = false;
};

template <typename T>
Result<std::span<const T>> ConstArrayView::As() const {
  const Status status = CheckElements(*this, DTypeOf<T>::value, alignof(T));
  if (!status.ok()) return status;
  return std::span(reinterpret_cast<const T*>(data),
                   static_cast<size_t>(ElementCount(shape)));
}

template <typename T>
Result<std::span<T>> ArrayView::As() const {
  const Status status = CheckElements(*this, DTypeOf<T>::value, alignof(T));
  if (!status.ok()) return status;
  return std::span(reinterpret_cast<T*>(data),
                   static_cast<size_t>(ElementCount(shape)));
}

template <typename Values>
Array Array::Of(const Values& values) {
  const std::span elements(values);
  using T = std::remove_cv_t<typename decltype(elements)::element_type>;
  return FromBytes(DTypeOf<T>::value, {static_cast<int64_t>(elements.size())},
                   elements.data());
}

template <typename Values>
Result<Array> Array::Of(const Values& values, Shape shape) {
  const std::span elements(values);
  using T = std::remove_cv_t<typename decltype(elements)::element_type>;
  return FromElements(DTypeOf<T>::value, std::move(shape), elements.data(),
                      elements.size());
}

}  // namespace holdfast
