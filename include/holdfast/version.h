// The version: the macro gives the version of the headers that a program was
// compiled with; Version() and Commit() describe the library that it runs with.
//
// Thread-safety: a pure function.
#pragma once

#include <string_view>

#include "holdfast/export.h"

#define HOLDFAST_VERSION "0.2.0"

namespace holdfast HOLDFAST_EXPORT {

// "0.2.0".
std::string_view Version();
// The commit that the library was built from, as 12 hex digits; empty when it
// was not built in a clone.
std::string_view Commit();
// The features of this processor that the library uses beyond the baseline of
// its architecture, separated by spaces: "crc32c bmi2", "crc32c", or "".
std::string_view ProcessorFeatures();

}  // namespace holdfast
