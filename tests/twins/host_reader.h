// HostReader: an ArrayReader of an array in host memory.
//
// Thread-safety: as ArrayReader. Ownership: shares the array, whose elements a
// test may change.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "ground/tensor/box.h"
#include "ground/tensor/copy.h"
#include "holdfast/tree.h"

namespace holdfast {

class HostReader final : public ArrayReader {
 public:
  explicit HostReader(Array array, bool is_live = false)
      : array_(std::move(array)), is_live_(is_live) {}

  Status Read(const Shape& origin, const ArrayView& target) const override {
    read_count_ += ElementCount(target.shape);
    CopyStrided(Subview(array_.view(), {origin, target.shape}), target);
    return Status();
  }
  bool is_live() const override { return is_live_; }

  Array& array() { return array_; }
  int64_t read_count() const { return read_count_; }  // elements

 private:
  Array array_;
  const bool is_live_;
  mutable std::atomic<int64_t> read_count_{0};
};

}  // namespace holdfast
