// A string that two dict keys share if and only if they are equal keys in
// Python.
//
// Thread-safety: pure function. Errors: nullopt for values that cannot be keys
// (a list, a dict, a set, a bytearray).
#pragma once

#include <optional>
#include <string>

#include "holdfast/tools/torch_file.h"

namespace holdfast::pickle {

std::optional<std::string> KeyText(const PickleValue& value);

}  // namespace holdfast::pickle
