// JSON text as Python's json.dumps and as TensorStore write it.
//
// Python: ", " and ": " between items, everything beyond ASCII as \uXXXX
// (surrogate pairs above U+FFFF), floats as repr() prints them, NaN and
// Infinity as words. TensorStore: nlohmann's compact dump of sorted members,
// UTF-8 as it is.
// Thread-safety: pure functions.
// Errors: parsing gives DataLoss with the byte offset. Writers do not fail;
// bytes that are not UTF-8 become U+FFFD.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

// json.dumps(value) with the default arguments.
std::string PythonJsonText(const nlohmann::ordered_json& value);
void AppendPythonJson(std::string& out, const nlohmann::ordered_json& value);
// A quoted string, ASCII only.
void AppendPythonJsonString(std::string& out, std::string_view text);
// repr(value): the shortest digits that read back, 1e-05, 1e+16, inf as
// Infinity.
void AppendPythonJsonFloat(std::string& out, double value);

// A quoted string in UTF-8: only quotes, backslashes and control characters
// are escaped.
void AppendCompactJsonString(std::string& out, std::string_view text);

// One whole document; also accepts NaN and Infinity, as Python does.
Result<nlohmann::ordered_json> ParseJsonText(std::string_view text);

}  // namespace holdfast
