#include "formats/pickle/elements.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "ground/base/bytes.h"
#include "ground/tensor/copy.h"

namespace holdfast::pickle {
namespace {

// Elements are copied into C order this many bytes at a time.
constexpr int64_t kScratchBytes = 256 << 10;

// Walks the first axes index by index, until the rest of the array fits the
// scratch memory or is in C order.
void Walk(const ConstArrayView& view, Buffer& scratch,
          const std::function<void(std::string_view)>& fn) {
  const int64_t element_bytes = static_cast<int64_t>(DTypeBytes(view.dtype));
  const int64_t byte_count = ElementCount(view.shape) * element_bytes;
  if (IsContiguous(view)) {
    fn({view.data, static_cast<size_t>(byte_count)});
    return;
  }
  if (byte_count <= kScratchBytes) {
    scratch.Reserve(static_cast<size_t>(byte_count));
    CopyStrided(view, {view.dtype, scratch.data(), view.shape,
                       ContiguousStrides(view.shape, element_bytes)});
    fn({scratch.data(), static_cast<size_t>(byte_count)});
    return;
  }
  ConstArrayView row = view;
  row.shape.erase(row.shape.begin());
  row.strides.erase(row.strides.begin());
  // A long last axis has no rows, so it is divided into parts.
  if (row.shape.empty()) {
    const int64_t step = kScratchBytes / element_bytes;
    for (int64_t at = 0; at < view.shape[0]; at += step) {
      ConstArrayView part = view;
      part.shape[0] = std::min(step, view.shape[0] - at);
      part.data = view.data + at * view.strides[0];
      Walk(part, scratch, fn);
    }
    return;
  }
  for (int64_t i = 0; i < view.shape[0]; ++i) {
    row.data = view.data + i * view.strides[0];
    Walk(row, scratch, fn);
  }
}

}  // namespace

void ForEachPiece(const ConstArrayView& view,
                  const std::function<void(std::string_view)>& fn) {
  if (ElementCount(view.shape) == 0) return;
  Buffer scratch;
  Walk(view, scratch, fn);
}

std::string ElementBytes(const ConstArrayView& view) {
  std::string bytes;
  ForEachPiece(view, [&](std::string_view piece) { bytes += piece; });
  return bytes;
}

}  // namespace holdfast::pickle
