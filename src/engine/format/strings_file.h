// `_strings.json`: the values of an item's str leaves.
//
// Compact JSON with sorted members. TensorStore stores each value at the JSON
// pointer "/" + parameter name without escaping the name: a "/" in a name
// makes nested objects, and "~0" and "~1" in a name stand for "~" and "/" in a
// member; any other "~" cannot be stored.
// Source: orbax-checkpoint 0.12.8 StringHandler, TensorStore's json driver.
// Thread-safety: pure functions.
// Errors: DataLoss when parsing; InvalidArgument when a name or value cannot be
// stored.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

// The text of each leaf, by parameter name.
using StringsFile = std::map<std::string, std::string, std::less<>>;

// Returns InvalidArgument, naming the leaf, for a "~" that is not part of "~0"
// or "~1"; for a name that is a path inside another name ("a" and "a/b"); and
// for text that is not UTF-8.
Result<std::string> SerializeStringsFile(const StringsFile& strings);
// Returns the values by parameter name.
Result<StringsFile> ParseStringsFile(std::string_view text);

}  // namespace holdfast
