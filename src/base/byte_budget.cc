#include "base/byte_budget.h"

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

ByteBudget::Lease ByteBudget::Acquire(size_t byte_count) {
  std::unique_lock lock(mutex_);
  freed_.wait(lock, [&] {
    return bytes_max_ == 0 || held_bytes_ == 0 ||
           (byte_count <= bytes_max_ && held_bytes_ <= bytes_max_ - byte_count);
  });
  held_bytes_ += byte_count;
  peak_bytes_ = std::max(peak_bytes_, held_bytes_);
  return Lease(this, byte_count);
}

size_t ByteBudget::peak_bytes() const {
  std::lock_guard lock(mutex_);
  return peak_bytes_;
}

void ByteBudget::Return(size_t byte_count) {
  {
    std::lock_guard lock(mutex_);
    held_bytes_ -= byte_count;
  }
  freed_.notify_all();
}

}  // namespace holdfast
