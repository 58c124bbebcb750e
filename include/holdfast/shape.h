// Shape: the extents, origin or strides of an array, one integer per dimension.
// A Shape is used like a std::vector<int64_t>. It holds up to kInlineRank
// elements without an allocation, because the engine makes several Shapes for
// every chunk.
//
// Thread-safety: a value. Iterators are pointers, and are invalidated like a
// vector's.
// Errors: throws std::bad_alloc when a vector would.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

#include "holdfast/export.h"

namespace holdfast HOLDFAST_EXPORT {

class Shape {
 public:
  using value_type = int64_t;
  using size_type = size_t;
  using difference_type = ptrdiff_t;
  using reference = int64_t&;
  using const_reference = const int64_t&;
  using iterator = int64_t*;
  using const_iterator = const int64_t*;

  static constexpr size_t kInlineRank = 4;

  Shape() noexcept {}
  explicit Shape(size_t rank, int64_t value = 0) { assign(rank, value); }
  Shape(std::initializer_list<int64_t> numbers)
      : Shape(numbers.begin(), numbers.end()) {}
  template <std::forward_iterator It>
  Shape(It first, It last) {
    assign(first, last);
  }
  Shape(const std::vector<int64_t>& numbers)  // NOLINT: the same numbers
      : Shape(numbers.begin(), numbers.end()) {}
  Shape(const Shape& other) : Shape(other.begin(), other.end()) {}
  Shape(Shape&& other) noexcept { Take(other); }
  Shape& operator=(const Shape& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }
  Shape& operator=(Shape&& other) noexcept {
    if (this != &other) {
      Free();
      Take(other);
    }
    return *this;
  }
  ~Shape() { Free(); }

  explicit operator std::vector<int64_t>() const { return {begin(), end()}; }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t* data() { return is_inline() ? inline_ : heap_; }
  const int64_t* data() const { return is_inline() ? inline_ : heap_; }
  int64_t* begin() { return data(); }
  int64_t* end() { return data() + size_; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + size_; }
  auto rbegin() const { return std::make_reverse_iterator(end()); }
  auto rend() const { return std::make_reverse_iterator(begin()); }
  int64_t& operator[](size_t i) { return data()[i]; }
  const int64_t& operator[](size_t i) const { return data()[i]; }
  int64_t& front() { return *begin(); }
  const int64_t& front() const { return *begin(); }
  int64_t& back() { return end()[-1]; }
  const int64_t& back() const { return end()[-1]; }

  void clear() { size_ = 0; }
  void reserve(size_t rank) {
    if (rank > capacity_) Grow(rank);
  }
  void resize(size_t rank, int64_t value = 0) {
    reserve(rank);
    if (rank > size_) std::fill(data() + size_, data() + rank, value);
    size_ = static_cast<uint32_t>(rank);
  }
  void assign(size_t rank, int64_t value) {
    clear();
    resize(rank, value);
  }
  // REQUIRES: the range is not part of this Shape.
  template <std::forward_iterator It>
  void assign(It first, It last) {
    clear();
    insert(end(), first, last);
  }
  void push_back(int64_t value) {
    if (size_ == capacity_) Grow(size_t{size_} + 1);
    data()[size_++] = value;
  }
  void pop_back() { --size_; }
  int64_t* insert(const int64_t* at, int64_t value) {
    return insert(at, size_t{1}, value);
  }
  int64_t* insert(const int64_t* at, size_t count, int64_t value) {
    int64_t* const gap = MakeGap(at, count);
    std::fill(gap, gap + count, value);
    return gap;
  }
  // REQUIRES: the range is not part of this Shape.
  template <std::forward_iterator It>
  int64_t* insert(const int64_t* at, It first, It last) {
    int64_t* const gap =
        MakeGap(at, static_cast<size_t>(std::distance(first, last)));
    std::copy(first, last, gap);
    return gap;
  }
  int64_t* erase(const int64_t* at) { return erase(at, at + 1); }
  int64_t* erase(const int64_t* first, const int64_t* last) {
    int64_t* const target = begin() + (first - begin());
    std::copy(last, const_cast<const int64_t*>(end()), target);
    size_ -= static_cast<uint32_t>(last - first);
    return target;
  }

  friend bool operator==(const Shape& a, const Shape& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
  friend auto operator<=>(const Shape& a, const Shape& b) {
    return std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(),
                                                  b.end());
  }

 private:
  bool is_inline() const { return capacity_ == kInlineRank; }
  void Free() {
    if (!is_inline()) delete[] heap_;
  }
  // REQUIRES: this Shape holds no heap memory.
  void Take(Shape& other) noexcept {
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, uint32_t{kInlineRank});
    if (is_inline()) {
      std::copy(other.inline_, other.inline_ + kInlineRank, inline_);
    } else {
      heap_ = other.heap_;
    }
  }
  // Moves the elements from `at` to the end up by `count` places, and returns
  // where the gap begins.
  int64_t* MakeGap(const int64_t* at, size_t count) {
    const ptrdiff_t index = at - begin();
    reserve(size_ + count);
    std::copy_backward(begin() + index, end(), end() + count);
    size_ += static_cast<uint32_t>(count);
    return begin() + index;
  }
  // Makes room for `rank` elements. REQUIRES: rank > capacity_.
  void Grow(size_t rank);

  uint32_t size_ = 0;
  uint32_t capacity_ = kInlineRank;  // if larger, elements are on the heap
  union {
    int64_t inline_[kInlineRank] = {};
    int64_t* heap_;
  };
};

}  // namespace holdfast
