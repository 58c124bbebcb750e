// Converts text for the cells of a terminal, so that it contains nothing that a
// terminal would interpret and has a known width.
//
// Thread-safety: pure functions of their arguments and of the process's locale
// (LC_CTYPE). Units: columns of a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "cli/text_table.h"

namespace holdfast::cli::top {

// Returns `text` with all characters escaped that are not one or two columns
// wide: control characters, invalid UTF-8, and marks that combine, reverse or
// hide text. Without `utf8`, escapes everything that is not ASCII, too.
std::string SafeText(std::string_view text, bool utf8);

// Returns the width in columns. REQUIRES: `safe` comes from SafeText.
size_t CellCount(std::string_view safe);

// Returns `safe` padded or cut to exactly `columns`; a cut removes the middle,
// or keeps only the beginning. REQUIRES: as above.
std::string Fitted(std::string_view safe, size_t columns, bool utf8,
                   Align align = Align::kLeft);

std::string Beginning(std::string_view safe, size_t columns);

}  // namespace holdfast::cli::top
