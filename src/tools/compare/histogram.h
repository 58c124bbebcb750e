// Histograms of numbers by sign and power of two, made from a sample in one
// pass, without knowing the range in advance.
//
// Thread-safety: pure functions and values. Units: elements.
#pragma once

#include <cstddef>
#include <cstdint>

#include "holdfast/dtype.h"
#include "holdfast/tools/stats.h"

namespace holdfast {

// Adds a sample of the `count` elements to `histogram`. They are a part of a
// tensor of `tensor_count` elements. About kHistogramSample elements of the
// complete tensor are counted, in evenly spread runs. A smaller tensor is
// counted completely. Complex numbers are counted by their moduli.
inline constexpr uint64_t kHistogramSample = 1 << 16;
void SampleHistogram(DType dtype, const char* elements, size_t count,
                     uint64_t tensor_count, MagnitudeHistogram& histogram);

}  // namespace holdfast
