// Computes the sums of many boxes on all threads.
//
// Thread-safety: pure functions of the memory that the views refer to.
// Units: elements. Errors: Cancelled; DataLoss, naming the tensor.
#pragma once

#include <string_view>
#include <vector>

#include "ground/base/cancel.h"
#include "ground/base/executor.h"
#include "ground/fingerprint/sum.h"

namespace holdfast {

// A box in an array of `array_shape`: the arguments of SumOfBox.
struct FingerprintPart {
  ConstArrayView view;
  Shape origin;  // empty: zeros
  Shape array_shape;
};

// Returns the sums in the order of `parts`.
Result<std::vector<FingerprintSum>> SumsOf(
    const std::vector<FingerprintPart>& parts, Executor& executor,
    const CancelToken& cancel);

// Compares the sum of a tensor's elements with its saved fingerprint.
Status CheckFingerprint(std::string_view name, DType dtype, const Shape& shape,
                        FingerprintSum elements, std::string_view want);

}  // namespace holdfast
