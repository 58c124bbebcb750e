// Says which characters Python prints unescaped (str.isprintable), which
// determines how repr() writes a key of `_METADATA`.
//
// The table follows the Unicode version of the Python that generated it (see
// the .cc): a character assigned by a newer Unicode is escaped here, but
// printed by a newer Python. Readers ignore the repr, so this costs no
// compatibility.
// Thread-safety: pure function. Errors: none.
#pragma once

namespace holdfast {

bool IsPythonPrintable(char32_t code_point);

}  // namespace holdfast
