#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "ground/base/bytes.h"
#include "holdfast/tensor.h"

namespace holdfast {
namespace {

constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();

// REQUIRES: both >= 0.
int64_t SaturatingProduct(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kInt64Max : product;
}

Status NotAs(const ConstArrayView& view, const std::string& why) {
  return InvalidArgumentError("elements of an array of shape " +
                              ShapeToString(view.shape) + ": " + why);
}

// Checks bytes before they become C++ bools: a byte from a file may be invalid.
Status CheckBools(const ConstArrayView& view) {
  const std::string_view bytes(view.data,
                               static_cast<size_t>(ElementCount(view.shape)));
  const size_t wrong = bytes.find_first_not_of(std::string_view("\0\1", 2));
  if (wrong == std::string_view::npos) return Status();
  return NotAs(view, "element " + std::to_string(wrong) +
                         " is not a bool (got " +
                         std::to_string(static_cast<uint8_t>(bytes[wrong])) +
                         ", want 0 or 1)");
}

}  // namespace

int64_t ElementCount(const Shape& shape) {
  // A zero extent takes precedence over an overflow of the others.
  for (const int64_t extent : shape) {
    if (extent == 0) return 0;
  }
  int64_t count = 1;
  for (const int64_t extent : shape) count = SaturatingProduct(count, extent);
  return count;
}

Shape ContiguousStrides(const Shape& shape, size_t element_bytes) {
  Shape strides(shape.size());
  auto stride = static_cast<int64_t>(element_bytes);
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    // As in numpy, an empty dimension counts as one element.
    stride = SaturatingProduct(stride, shape[i] > 0 ? shape[i] : 1);
  }
  return strides;
}

std::string ShapeToString(const Shape& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

bool IsContiguous(const ConstArrayView& view) {
  // The stride of an extent of 1 is never used, so it may be anything.
  assert(view.shape.size() == view.strides.size());
  if (ElementCount(view.shape) == 0) return true;
  auto stride = static_cast<int64_t>(DTypeBytes(view.dtype));
  for (size_t i = view.shape.size(); i-- > 0;) {
    if (view.shape[i] == 1) continue;
    if (view.strides[i] != stride) return false;
    stride = SaturatingProduct(stride, view.shape[i]);
  }
  return true;
}

Status CheckElements(const ConstArrayView& view, DType dtype,
                     size_t alignment_bytes) {
  if (view.dtype != dtype) {
    return NotAs(view, "another dtype (got " +
                           std::string(DTypeName(view.dtype)) + ", want " +
                           std::string(DTypeName(dtype)) + ")");
  }
  if (!IsContiguous(view)) {
    return NotAs(view, "not contiguous (got strides of " +
                           ShapeToString(view.strides) + " bytes)");
  }
  if (ElementCount(view.shape) == 0) return Status();
  if (reinterpret_cast<uintptr_t>(view.data) % alignment_bytes != 0) {
    return NotAs(view, "not aligned (want " + std::to_string(alignment_bytes) +
                           " bytes)");
  }
  return dtype == DType::kBool ? CheckBools(view) : Status();
}

Result<Array> Array::Allocate(DType dtype, Shape shape) {
  const auto element_bytes = static_cast<int64_t>(DTypeBytes(dtype));
  const int64_t byte_count =
      SaturatingProduct(ElementCount(shape), element_bytes);
  auto buffer = std::make_shared<Buffer>(
      Buffer::TryAllocate(static_cast<size_t>(byte_count)));
  if (buffer->data() == nullptr) {
    return ResourceExhaustedError(
        "allocate array: " + std::string(DTypeName(dtype)) + " " +
        ShapeToString(shape) + ": no memory (want " +
        std::to_string(byte_count) + " bytes)");
  }
  Array array;
  array.view_.dtype = dtype;
  array.view_.data = buffer->data();
  array.view_.strides = ContiguousStrides(shape, DTypeBytes(dtype));
  array.view_.shape = std::move(shape);
  array.owner_ = std::move(buffer);
  return array;
}

Array Array::FromBytes(DType dtype, Shape shape, const void* bytes) {
  // The caller already holds this many bytes, so running out of memory here is
  // as fatal as it is for a std::vector.
  Array array = Allocate(dtype, std::move(shape)).value();
  const size_t byte_count = array.byte_count();
  if (byte_count > 0) {
    std::memcpy(array.mutable_view().data, bytes, byte_count);
  }
  return array;
}

Result<Array> Array::FromElements(DType dtype, Shape shape,
                                  const void* elements, size_t count) {
  const bool is_negative =
      std::any_of(shape.begin(), shape.end(), [](int64_t n) { return n < 0; });
  const int64_t want = is_negative ? -1 : ElementCount(shape);
  if (want < 0 || static_cast<size_t>(want) != count) {
    return InvalidArgumentError("array of shape " + ShapeToString(shape) +
                                ": another number of elements (got " +
                                std::to_string(count) + ")");
  }
  Result<Array> array = Allocate(dtype, std::move(shape));
  if (array.ok() && count > 0) {
    std::memcpy(array->mutable_view().data, elements, array->byte_count());
  }
  return array;
}

Array Array::Borrow(ConstArrayView view, std::shared_ptr<const void> owner) {
  assert(view.shape.size() == view.strides.size());
  Array array;
  array.view_ = std::move(view);
  array.owner_ = std::move(owner);
  return array;
}

Array Array::BorrowReadOnly(ConstArrayView view,
                            std::shared_ptr<const void> owner) {
  Array array = Borrow(std::move(view), std::move(owner));
  array.is_read_only_ = true;
  return array;
}

Array Array::Outline(DType dtype, const Shape& shape) {
  return Borrow({dtype, nullptr, shape, Shape(shape.size(), 0)}, nullptr);
}

size_t Array::byte_count() const {
  return static_cast<size_t>(element_count()) * DTypeBytes(dtype());
}

ArrayView Array::mutable_view() {
  assert(!is_read_only_);
  // The memory of Allocate and FromBytes is not const; see the contract.
  return {view_.dtype, const_cast<char*>(view_.data), view_.shape,
          view_.strides};
}

}  // namespace holdfast
