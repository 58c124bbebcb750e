// Histograms of numbers by sign and power of two, from a sample: one pass, with
// no range to be known before.
//
// Thread-safety: pure functions and values. Units: elements.
#pragma once

#include <cstddef>
#include <cstdint>

#include "holdfast/dtype.h"
#include "holdfast/tools/stats.h"

namespace holdfast {

// Adds to `histogram` a sample of `count` elements that are a part of a tensor
// of `tensor_count`: of the whole tensor about kHistogramSample are counted, in
// runs spread evenly; all, where it has no more. For complex numbers their
// moduli are counted.
inline constexpr uint64_t kHistogramSample = 1 << 16;
void SampleHistogram(DType dtype, const char* elements, size_t count,
                     uint64_t tensor_count, MagnitudeHistogram& histogram);

}  // namespace holdfast
