// Which characters Python prints as they are (str.isprintable), which decides
// how repr() writes a key of `_METADATA`.
//
// The table follows the Unicode version of the Python that made it (see the
// .cc): a character that a newer Unicode assigned is escaped here and printed
// by a newer Python. Readers ignore the repr, so that costs no compatibility.
// Thread-safety: pure function. Errors: none.
#pragma once

namespace holdfast {

bool IsPythonPrintable(char32_t code_point);

}  // namespace holdfast
