#include "base/bytes.h"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <new>

namespace holdfast {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;
// A cache line, and what jax wants of memory that it adopts without a copy.
constexpr size_t kAlignmentBytes = 64;
// No process can have more (47-bit user addresses); refused before malloc sees
// it.
constexpr size_t kAddressableBytes = size_t{1} << 46;

// Large blocks are aligned to huge pages and ask for them, so that filling
// them takes one page fault per 2 MiB instead of 512.
char* AllocateRaw(size_t byte_count) {
  if (byte_count > kAddressableBytes) return nullptr;
  const bool is_large = byte_count >= 2 * kHugePageBytes;
  const size_t alignment = is_large ? kHugePageBytes : kAlignmentBytes;
  const size_t rounded =
      std::max(alignment, (byte_count + alignment - 1) / alignment * alignment);
  void* block = std::aligned_alloc(alignment, rounded);
  if (is_large && block != nullptr) madvise(block, rounded, MADV_HUGEPAGE);
  return static_cast<char*>(block);
}

}  // namespace

Buffer::Buffer(size_t byte_count)
    : data_(AllocateRaw(byte_count)), size_(byte_count) {
  if (data_ == nullptr) throw std::bad_alloc();
}

Buffer::~Buffer() { std::free(data_); }

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Buffer Buffer::TryAllocate(size_t byte_count) {
  Buffer buffer;
  buffer.data_ = AllocateRaw(byte_count);
  buffer.size_ = buffer.data_ != nullptr ? byte_count : 0;
  return buffer;
}

void Buffer::Reserve(size_t byte_count) {
  if (byte_count <= size_) return;
  std::free(std::exchange(data_, nullptr));
  size_ = 0;
  *this = Buffer(byte_count);
}

Bytes::Bytes(std::string text) {
  auto owner = std::make_shared<const std::string>(std::move(text));
  view_ = *owner;
  owner_ = std::move(owner);
}

Bytes::Bytes(Buffer buffer, size_t byte_count) {
  assert(byte_count <= buffer.size());
  auto owner = std::make_shared<const Buffer>(std::move(buffer));
  view_ = owner->view().substr(0, byte_count);
  owner_ = std::move(owner);
}

Bytes Bytes::Slice(size_t offset, size_t byte_count) const {
  assert(offset <= size() && byte_count <= size() - offset);
  return Bytes(owner_, view_.substr(offset, byte_count));
}

}  // namespace holdfast
