// Regular expressions in Python's syntax, rewritten for PCRE2.
//
// Refused with Python's messages: escapes, extensions and repetitions that
// Python does not have but PCRE2 would take. Groups lose their names, which are
// kept beside the pattern. Not part of this release: the inline flags a, L and
// x, and \N{...}.
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
  size_t group_count = 0;  // without the whole match
};

Result<PcrePattern> TranslatePythonPattern(std::string_view pattern);

}  // namespace holdfast
