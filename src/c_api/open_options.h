// The options of holdfast_open and holdfast_verify.
//
// Thread-safety: pure. Errors: those of ReadOptions.
#pragma once

#include "holdfast/c/holdfast.h"
#include "holdfast/options.h"
#include "holdfast/status.h"

namespace holdfast {

// Converts the caller's options; null means the defaults.
Result<OpenOptions> OpenOptionsFrom(const holdfast_open_options* options);

}  // namespace holdfast
