// Copies arrays, of the host or of devices, that their owner may change after a
// save has begun. The copies are planned with the GIL, and then made by several
// threads without it.
//
// Thread-safety: call Plan with the GIL held, Run without it. Ownership: the
// planned Array owns the copy; the source must live until Run returns.
// Units: bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "holdfast/tensor.h"
#include "holdfast/tree.h"

namespace holdfast::python {

class Snapshot {
 public:
  // Returns an Array whose memory Run fills with all bytes from the view's
  // first element to its last, so that the view's strides are valid there, too.
  // Returns nullopt if the view has gaps, so that this would copy more than the
  // elements.
  Result<std::optional<Array>> Plan(const ConstArrayView& view);
  // Returns an Array whose memory Run fills with all elements of `reader`,
  // which must live until Run returns.
  Result<Array> PlanRead(DType dtype, const Shape& shape,
                         const ArrayReader& reader);
  // Makes all planned copies. Fails only if a reader does.
  Status Run() const;
  uint64_t byte_count() const { return byte_count_; }

 private:
  struct Copy {
    const char* source;
    char* target;
    size_t byte_count;
  };
  struct ReaderCopy {
    const ArrayReader* reader;
    Shape origin;
    ArrayView target;
  };
  std::vector<Copy> copies_;
  std::vector<ReaderCopy> reader_copies_;
  uint64_t byte_count_ = 0;
};

}  // namespace holdfast::python
