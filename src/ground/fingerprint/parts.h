// Computes the sums of many boxes on all threads.
//
// Thread-safety: pure functions of the memory that the views refer to.
// Units: elements. Errors: Cancelled.
#pragma once

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

}  // namespace holdfast
