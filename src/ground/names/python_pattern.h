// Regular expressions in Python's syntax, rewritten for PCRE2.
//
// Escapes, extensions and repetitions that PCRE2 would accept but Python does
// not are refused with Python's messages. The rewritten groups have no names;
// the names are stored with the pattern. This release does not support the
// inline flags a, L and x, and \N{...}.
// Source: Python 3.11, "Regular Expression Syntax" of the library reference.
// Thread-safety: pure function.
// Errors: InvalidArgument "MESSAGE at position N" (in code points).
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

struct PcrePattern {
  std::string text;
  std::map<std::string, size_t> group_of_name;
  size_t group_count = 0;  // not counting the whole match
};

Result<PcrePattern> TranslatePythonPattern(std::string_view pattern);

}  // namespace holdfast
