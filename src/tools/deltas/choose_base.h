// Chooses the step from which a delta is made, or decides that a full step is
// due.
//
// Thread-safety: reads directories. Errors: InvalidArgument if anchor_every is
// 0; those of listing the root.
#pragma once

#include <cstdint>
#include <string>

#include "holdfast/status.h"

namespace holdfast {

struct ChosenBase {
  std::string path;  // empty: write a full step
  // Why the step that would have been the base cannot be it; empty if a full
  // step is due, or there is no earlier step.
  std::string why_whole;
};

// Returns the base for the step that is to be written at `step` (or for its
// item `item`, if that is not empty), in a run that writes a full step once in
// `anchor_every` steps.
//
// The base is the newest committed step before it. If `step` has a number,
// steps with higher numbers are skipped, so that a run that went back does not
// build on steps that it abandoned. Steps that depend on the step that `step`
// replaces are skipped too. If the base cannot be opened, a full step is due,
// so a run continues despite damage.
Result<ChosenBase> ChooseBase(const std::string& step, const std::string& item,
                              uint64_t anchor_every);

}  // namespace holdfast
