#include "ground/base/byte_budget.h"

#include <algorithm>
#include <utility>

namespace holdfast {

ByteBudget::Lease::Lease(Lease&& other) noexcept
    : budget_(std::exchange(other.budget_, nullptr)),
      byte_count_(std::exchange(other.byte_count_, 0)) {}

ByteBudget::Lease& ByteBudget::Lease::operator=(Lease&& other) noexcept {
  if (this != &other) {
    Release();
    budget_ = std::exchange(other.budget_, nullptr);
    byte_count_ = std::exchange(other.byte_count_, 0);
  }
  return *this;
}

void ByteBudget::Lease::Release() {
  if (budget_ != nullptr) budget_->Return(byte_count_);
  budget_ = nullptr;
}

bool ByteBudget::Fits(size_t byte_count) const {
  // When nothing is held, a request of any size fits: one above the entire
  // budget would otherwise wait forever.
  return bytes_max_ == 0 || held_bytes_ == 0 ||
         (byte_count <= bytes_max_ && held_bytes_ <= bytes_max_ - byte_count);
}

ByteBudget::Lease ByteBudget::Hold(size_t byte_count) {
  held_bytes_ += byte_count;
  peak_bytes_ = std::max(peak_bytes_, held_bytes_);
  return Lease(this, byte_count);
}

ByteBudget::Lease ByteBudget::Acquire(size_t byte_count) {
  std::unique_lock lock(mutex_);
  freed_.wait(lock, [&] { return Fits(byte_count); });
  return Hold(byte_count);
}

std::optional<ByteBudget::Lease> ByteBudget::TryAcquire(size_t byte_count) {
  std::lock_guard lock(mutex_);
  if (!Fits(byte_count)) return std::nullopt;
  return Hold(byte_count);
}

bool ByteBudget::WantsPieces(size_t byte_count) const {
  return bytes_max_ != 0 && byte_count > bytes_max_ &&
         // A piecewise worker holds two pieces, so smaller requests would save
         // no memory.
         byte_count > 2 * piece_bytes();
}

size_t ByteBudget::piece_bytes() const {
  constexpr size_t kMin = 128 << 10;  // a block of a zstd frame
  constexpr size_t kMax = 4 << 20;
  return bytes_max_ == 0 ? kMax : std::clamp(bytes_max_ / 4, kMin, kMax);
}

size_t ByteBudget::peak_bytes() const {
  std::lock_guard lock(mutex_);
  return peak_bytes_;
}

void ByteBudget::Return(size_t byte_count) {
  // Notify after unlocking, so that a woken waiter does not immediately block
  // on the mutex.
  {
    std::lock_guard lock(mutex_);
    held_bytes_ -= byte_count;
  }
  // Wake all waiters: the next one may want more than was freed, another one
  // less.
  freed_.notify_all();
}

}  // namespace holdfast
