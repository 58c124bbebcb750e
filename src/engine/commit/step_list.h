// ListSteps of only the newest steps.
//
// Thread-safety, errors: as ListSteps (holdfast/checkpoint.h).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "holdfast/checkpoint.h"

namespace holdfast {

// The steps of the highest numbers, `count_max` of them (0: all), in the order
// of ListSteps; nothing is asked of the others.
Result<std::vector<StepInfo>> ListNewestSteps(const std::string& root,
                                              CommitMode mode,
                                              size_t count_max);

}  // namespace holdfast
