// ListSteps limited to the newest steps.
//
// Thread-safety, errors: as ListSteps (holdfast/checkpoint.h).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "holdfast/checkpoint.h"

namespace holdfast {

// Returns the `count_max` steps with the highest numbers (0 means all), in the
// order of ListSteps; the others are not examined.
Result<std::vector<StepInfo>> ListNewestSteps(const std::string& root,
                                              CommitMode mode,
                                              size_t count_max);

}  // namespace holdfast
