// The version of holdfast. The macro is the version of the headers that a
// program was compiled with; the functions describe the library that it runs
// with.
//
// Thread-safety: pure functions.
#pragma once

#include <string_view>

#include "holdfast/export.h"

#define HOLDFAST_VERSION "0.2.0"

namespace holdfast HOLDFAST_EXPORT {

// Returns the library's version: "0.2.0".
std::string_view Version();
// Returns the commit that the library was built from, as 12 hex digits. Empty
// if it was not built in a git clone.
std::string_view Commit();
// Returns the features of this processor that the library uses beyond its
// architecture's baseline, separated by spaces: "crc32c bmi2", "crc32c", or "".
std::string_view ProcessorFeatures();

}  // namespace holdfast
