// Which step a delta is made from, and when a whole step is due.
//
// Thread-safety: reads directories. Errors: InvalidArgument for anchor_every of
// 0; those of listing the root.
#pragma once

#include <cstdint>
#include <string>

#include "holdfast/status.h"

namespace holdfast {

struct ChosenBase {
  std::string path;  // empty: the step is to be whole
  // Why a step could not be the base that would have been one; empty where a
  // whole step is due, or there is no step before.
  std::string why_whole;
};

// The base for the step that is to be written at `step` (or, with a name,
// for that item of it), in a run that is whole once in `anchor_every` steps:
// the newest committed step before it, by number where `step` has one, so that
// a run that went back does not build on what it has abandoned; never a step
// that is itself made from what `step` replaces. A base that cannot be opened
// counts as missing: a run goes on beside damage.
Result<ChosenBase> ChooseBase(const std::string& step, const std::string& item,
                              uint64_t anchor_every);

}  // namespace holdfast
