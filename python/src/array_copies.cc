#include "array_copies.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

namespace holdfast::python {
namespace {

// A thread copies this many bytes at a time, so several threads can copy a
// large array together.
constexpr size_t kPieceBytes = size_t{4} << 20;

// The range of bytes from the first element of a view to the end of the last,
// in memory.
struct Extent {
  const char* begin;
  int64_t byte_count;
};

Extent ExtentOf(const ConstArrayView& view) {
  int64_t below = 0;
  auto above = static_cast<int64_t>(DTypeBytes(view.dtype));
  for (size_t i = 0; i < view.shape.size(); ++i) {
    const int64_t reach = view.strides[i] * (view.shape[i] - 1);
    (reach < 0 ? below : above) += reach;
  }
  return {view.data + below, above - below};
}

}  // namespace

Result<std::optional<Array>> Snapshot::Plan(const ConstArrayView& view) {
  if (ElementCount(view.shape) == 0) {
    return std::optional(Array::Borrow(view, nullptr));
  }
  const Extent extent = ExtentOf(view);
  const int64_t element_byte_count =
      ElementCount(view.shape) * static_cast<int64_t>(DTypeBytes(view.dtype));
  if (extent.byte_count > element_byte_count) return std::optional<Array>();
  Result<Array> allocated = Array::Allocate(DType::kUint8, {extent.byte_count});
  if (!allocated.ok()) return allocated.status();
  auto memory = std::make_shared<Array>(*std::move(allocated));
  char* target = memory->mutable_view().data;
  const auto byte_count = static_cast<size_t>(extent.byte_count);
  for (size_t done = 0; done < byte_count; done += kPieceBytes) {
    copies_.push_back({extent.begin + done, target + done,
                       std::min(kPieceBytes, byte_count - done)});
  }
  byte_count_ += byte_count;
  ConstArrayView copy = view;
  copy.data = target + (view.data - extent.begin);
  return std::optional(Array::Borrow(std::move(copy), std::move(memory)));
}

void Snapshot::Run() const {
  std::atomic<size_t> next = 0;
  const auto work = [this, &next] {
    while (true) {
      const size_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= copies_.size()) return;
      std::memcpy(copies_[i].target, copies_[i].source, copies_[i].byte_count);
    }
  };
  const size_t thread_count =
      std::min<size_t>({std::max(1U, std::thread::hardware_concurrency()),
                        size_t{32}, byte_count_ / kPieceBytes});
  std::vector<std::jthread> helpers;
  try {
    for (size_t i = 1; i < thread_count; ++i) helpers.emplace_back(work);
  } catch (const std::system_error&) {
    // With fewer threads, all copies are still made.
  }
  work();
}

}  // namespace holdfast::python
