// ChooseBase (holdfast/delta.h) for an item of a step.
//
// Thread-safety: reads directories. Errors: as ChooseBase.
#pragma once

#include <cstdint>
#include <string>

#include "holdfast/status.h"

namespace holdfast {

// `item`: empty for a step that is a delta itself. Empty also where the newest
// step has no such item.
Result<std::string> ChooseBaseOf(const std::string& step,
                                 const std::string& item,
                                 uint64_t anchor_every);

}  // namespace holdfast
