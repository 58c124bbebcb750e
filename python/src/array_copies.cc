#include "array_copies.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace holdfast::python {
namespace {

// A thread copies this many bytes at a time, so several threads can copy a
// large array together.
constexpr size_t kPieceBytes = size_t{4} << 20;
// The same for elements that a reader returns.
constexpr size_t kReaderPieceBytes = size_t{32} << 20;

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

Result<Array> Snapshot::PlanRead(DType dtype, const Shape& shape,
                                 const ArrayReader& reader) {
  Result<Array> copy = Array::Allocate(dtype, shape);
  if (!copy.ok()) return copy;
  const ArrayView target = copy->mutable_view();
  const int64_t row_count = shape.empty() ? 1 : shape[0];
  const size_t row_bytes = copy->byte_count() / static_cast<size_t>(row_count);
  const int64_t piece_rows = std::max<int64_t>(
      1,
      static_cast<int64_t>(kReaderPieceBytes / std::max<size_t>(1, row_bytes)));
  for (int64_t row = 0; row < row_count; row += piece_rows) {
    ReaderCopy piece{&reader, Shape(shape.size(), 0), target};
    if (!shape.empty()) {
      piece.origin[0] = row;
      piece.target.shape[0] = std::min(piece_rows, row_count - row);
      piece.target.data += row * target.strides[0];
    }
    reader_copies_.push_back(std::move(piece));
  }
  byte_count_ += copy->byte_count();
  return copy;
}

Status Snapshot::Run() const {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  Status status;
  // Copies from devices come first: they keep the bus busy for longest.
  const auto work = [&] {
    while (true) {
      const size_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i < reader_copies_.size()) {
        const ReaderCopy& copy = reader_copies_[i];
        const Status read = copy.reader->Read(copy.origin, copy.target);
        if (read.ok()) continue;
        const std::lock_guard lock(mutex);
        status = read;
        next = reader_copies_.size() + copies_.size();
        return;
      }
      const size_t j = i - reader_copies_.size();
      if (j >= copies_.size()) return;
      std::memcpy(copies_[j].target, copies_[j].source, copies_[j].byte_count);
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
  helpers.clear();  // waits for them
  return status;
}

}  // namespace holdfast::python
