// repr() of a Python str.
//
// Single quotes, or double quotes when the text holds a single quote and no
// double one; \t \n \r and \\ by name; characters that Python does not print as
// \xNN, \uNNNN or \UNNNNNNNN.
// Source: CPython, Objects/unicodeobject.c, documented under "repr".
// Thread-safety: pure function.
// Errors: none; bytes that are not UTF-8 appear as \xNN.
#pragma once

#include <string>
#include <string_view>

namespace holdfast {

void AppendPythonRepr(std::string& out, std::string_view text);

}  // namespace holdfast
