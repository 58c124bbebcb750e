// Copies arrays that their owner may change after a save has begun: planned
// with the GIL, made by all threads without it.
//
// Thread-safety: Plan with the GIL held; Run without it. Ownership: the planned
// Array owns the copy; the source must live until Run returns.
// Units: bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "holdfast/tensor.h"

namespace holdfast::python {

class Snapshot {
 public:
  // Returns an Array whose memory Run fills with the bytes between the view's
  // first and last element, so that the view's strides are valid there, too.
  // Null if the view's gaps are so large that this would copy more than its
  // elements.
  Result<std::optional<Array>> Plan(const ConstArrayView& view);
  void Run() const;
  uint64_t byte_count() const { return byte_count_; }

 private:
  struct Copy {
    const char* source;
    char* target;
    size_t byte_count;
  };
  std::vector<Copy> copies_;
  uint64_t byte_count_ = 0;
};

}  // namespace holdfast::python
