// Serializes lists of found steps, to send them between processes.
//
// Thread-safety: pure functions.
// Errors: Internal for text that PackSteps did not make.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "holdfast/status.h"
#include "holdfast/steps/step_names.h"

namespace holdfast {

std::string PackSteps(const std::vector<FoundStep>& steps);
// Parses the list. `format` builds the names from the steps, as in Orbax.
Result<std::vector<FoundStep>> UnpackSteps(std::string_view text,
                                           const StepNameFormat& format);

}  // namespace holdfast
