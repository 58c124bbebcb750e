// Describes a step of a root, as steps and log print it.
//
// Thread-safety: pure functions.
#pragma once

#include <string>

#include "cli/json_out.h"
#include "holdfast/checkpoint.h"

namespace holdfast::cli {

// Returns {"loss": 0.5, "acc": 0.9} as "acc=0.9 loss=0.5". Returns text that is
// not such an object unchanged.
std::string MetricsText(const std::string& metrics);
// Returns "committed", why the step is not committed, or what is damaged.
std::string StateText(const StepInfo& step, bool color);
// Writes the members of a step's object.
void WriteStepFields(const StepInfo& step, JsonWriter* json);

}  // namespace holdfast::cli
