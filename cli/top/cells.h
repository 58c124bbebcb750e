// Text as a terminal's cells: nothing that a terminal would obey, and of a
// known width.
//
// Thread-safety: pure functions of their arguments and of the process's locale
// (LC_CTYPE). Units: columns of a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "cli/text_table.h"

namespace holdfast::cli::top {

// `text` with everything that has no width of one or two columns escaped:
// control characters, what is not UTF-8, marks that combine, reverse or hide.
// Without `utf8` whatever is not ASCII is, too.
std::string SafeText(std::string_view text, bool utf8);

// REQUIRES: `safe` from SafeText.
size_t CellCount(std::string_view safe);

// Exactly `columns` wide: padded, or without its middle, or with only its
// beginning. REQUIRES: as above.
std::string Fitted(std::string_view safe, size_t columns, bool utf8,
                   Align align = Align::kLeft);

std::string Beginning(std::string_view safe, size_t columns);

}  // namespace holdfast::cli::top
