// Lists of found steps as one text, to travel between processes.
//
// Thread-safety: pure functions. Errors: Internal for a text that PackSteps did
// not make.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "holdfast/status.h"
#include "holdfast/steps/step_names.h"

namespace holdfast {

std::string PackSteps(const std::vector<FoundStep>& steps);
// The names are those that `format` gives the steps, as Orbax has it.
Result<std::vector<FoundStep>> UnpackSteps(std::string_view text,
                                           const StepNameFormat& format);

}  // namespace holdfast
