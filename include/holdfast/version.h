// The version: the macro has that of the headers a program was compiled with,
// Version() that of the library it runs with.
//
// Thread-safety: a pure function.
#pragma once

#include <string_view>

#include "holdfast/export.h"

#define HOLDFAST_VERSION "0.1.0"

namespace holdfast HOLDFAST_EXPORT {

// "0.1.0".
std::string_view Version();

}  // namespace holdfast
