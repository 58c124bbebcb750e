#include "ground/base/bytes.h"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <new>

namespace holdfast {
namespace {

// A cache line; jax adopts memory without a copy only at this alignment.
constexpr size_t kAlignmentBytes = 64;
// No process can have more than this (47-bit user addresses). Larger sizes are
// refused before they reach malloc.
constexpr size_t kAddressableBytes = size_t{1} << 46;

// Blocks of at least this size are mapped, so they return to the system when
// freed. malloc would keep them in its threads' arenas, and no budget counts
// that memory.
constexpr size_t kMappedBytesMin = size_t{1} << 20;

constexpr size_t RoundedUp(size_t byte_count, size_t unit) {
  return (byte_count + unit - 1) / unit * unit;
}

size_t MappedBytes(size_t byte_count) { return RoundedUp(byte_count, 4096); }

// Does not ask for huge pages. On a host that gives memory to virtual machines
// page by page, free huge pages are those that the host has taken back.
// Touching 1 GiB of them took 1.0 to 1.3 s, against 0.2 s for small pages (two
// threads; 2.7 s for each kind if the host has neither). On other hosts huge
// pages would save 0.1 s; there the system setting "always" enables them.
char* Map(size_t byte_count) {
  void* const mapped =
      ::mmap(nullptr, MappedBytes(byte_count), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return mapped == MAP_FAILED ? nullptr : static_cast<char*>(mapped);
}

char* AllocateRaw(size_t byte_count) {
  if (byte_count > kAddressableBytes) return nullptr;
  if (byte_count >= kMappedBytesMin) return Map(byte_count);
  const size_t rounded =
      // aligned_alloc requires a multiple of the alignment; 0 bytes become one
      // unit, so that null always means "no memory".
      std::max(kAlignmentBytes, RoundedUp(byte_count, kAlignmentBytes));
  return static_cast<char*>(std::aligned_alloc(kAlignmentBytes, rounded));
}

// Frees a block that AllocateRaw returned for the same `byte_count`, or does
// nothing for null. The count decides between munmap and free.
void FreeRaw(char* block, size_t byte_count) {
  if (block == nullptr) return;
  if (byte_count >= kMappedBytesMin) {
    ::munmap(block, MappedBytes(byte_count));
  } else {
    std::free(block);
  }
}

}  // namespace

Buffer::Buffer(size_t byte_count)
    : data_(AllocateRaw(byte_count)), size_(byte_count) {
  if (data_ == nullptr) throw std::bad_alloc();
}

Buffer::~Buffer() { FreeRaw(data_, size_); }

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
  // Frees the old block first, as there might be no room for both.
  FreeRaw(std::exchange(data_, nullptr), std::exchange(size_, 0));
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
