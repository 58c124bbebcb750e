// Finds the step of a root that an address means.
//
// Thread-safety: pure functions.
// Errors: NotFound (no such step, no step that old, no metric with that name;
// lists the existing ones).
#pragma once

#include <string>
#include <vector>

#include "holdfast/steps/steps.h"
#include "stores/place/step_address.h"

namespace holdfast {

// Returns the name of the step's directory. `steps` are the result of
// ScanSteps, with metadata unless the address is a number. REQUIRES: not
// kLatest.
Result<std::string> ChooseStep(const std::vector<ScannedStep>& steps,
                               const StepAddress& address);

// Returns the time in the form "2026-11-01T12:00:00Z".
std::string IsoTimeText(int64_t time_ns);

}  // namespace holdfast
