// JSON text in the exact forms that Python's json.dumps and TensorStore write.
//
// Python: ", " and ": " between items, everything beyond ASCII as \uXXXX
// (surrogate pairs above U+FFFF), floats as repr() prints them, NaN and
// Infinity as words. TensorStore: nlohmann's compact dump of sorted members,
// with UTF-8 unescaped.
// Thread-safety: pure functions.
// Errors: a parse failure is DataLoss with the byte offset. Writers do not
// fail; bytes that are not UTF-8 become U+FFFD.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

// Returns what json.dumps(value) returns with its default arguments.
std::string PythonJsonText(const nlohmann::ordered_json& value);
void AppendPythonJson(std::string& out, const nlohmann::ordered_json& value);
// Appends a quoted string, ASCII only.
void AppendPythonJsonString(std::string& out, std::string_view text);
// Appends repr(value): the fewest digits that parse to the same value, in forms
// such as 1e-05 and 1e+16. However, inf is written as Infinity.
void AppendPythonJsonFloat(std::string& out, double value);

// Appends a quoted string in UTF-8, in which only quotes, backslashes and
// control characters are escaped.
void AppendCompactJsonString(std::string& out, std::string_view text);

// Parses one complete document; also accepts NaN and Infinity, as Python does.
Result<nlohmann::ordered_json> ParseJsonText(std::string_view text);

}  // namespace holdfast
