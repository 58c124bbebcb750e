// Estimates the bytes that elements would take if they were saved with
// Compression::kPlanes.
//
// Thread-safety: calls may run concurrently. Units: bytes.
#pragma once

#include <cstdint>

#include "formats/zarr/context_pool.h"
#include "holdfast/dtype.h"

namespace holdfast {

class PlanesEstimate {
 public:
  // Encodes at most the first 512 KiB of `element_count` elements in C order,
  // and assumes that the rest compresses equally well.
  uint64_t Estimate(DType dtype, const char* elements, int64_t element_count);

 private:
  zarr::CodecContextPool contexts_;
};

}  // namespace holdfast
