// Converts results to strings for the tests of this folder.
// Thread-safety: pure functions. Tests only.
#pragma once

#include <string>

#include "holdfast/status.h"

namespace holdfast {

// Returns the value, or the error.
inline std::string Text(const Result<std::string>& result) {
  return result.ok() ? *result : result.status().ToString();
}

}  // namespace holdfast
