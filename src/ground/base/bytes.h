// Bytes (shared, immutable slice) and Buffer (owned, uninitialized memory).
//
// The system supplies a Buffer's pages on first touch. Buffers of 1 MiB or more
// return their pages to the system when destroyed, so the pages do not stay in
// malloc's arenas. All buffers are aligned to 64 bytes.
// Thread-safety: Bytes values may be shared; a Buffer has one owner.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast {

class Buffer {
 public:
  Buffer() = default;
  // Aborts the process only if the system has no memory at all; callers must
  // first check sizes that come from a file.
  explicit Buffer(size_t byte_count);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // Returns a buffer with null data() and size 0 when memory is short.
  static Buffer TryAllocate(size_t byte_count);

  char* data() { return data_; }
  const char* data() const { return data_; }
  size_t size() const { return size_; }
  std::string_view view() const { return {data_, size_}; }
  // Grows to at least `byte_count`; the contents are lost when it grows.
  void Reserve(size_t byte_count);

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
};

class Bytes {
 public:
  Bytes() = default;
  explicit Bytes(std::string text);
  // Takes ownership of the buffer; the slice is its first `byte_count` bytes.
  Bytes(Buffer buffer, size_t byte_count);
  Bytes(std::shared_ptr<const void> owner, std::string_view view)
      : owner_(std::move(owner)), view_(view) {}

  std::string_view view() const { return view_; }
  const char* data() const { return view_.data(); }
  size_t size() const { return view_.size(); }
  bool empty() const { return view_.empty(); }
  // REQUIRES: offset + byte_count <= size(). Shares ownership.
  Bytes Slice(size_t offset, size_t byte_count) const;
  std::string ToString() const { return std::string(view_); }

 private:
  std::shared_ptr<const void> owner_;
  std::string_view view_;
};

}  // namespace holdfast
