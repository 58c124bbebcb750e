// Sorts the words of a command line, GNU style: --flag=value, --flag value,
// -x value, -xvalue, bundled switches, and `--` before operands that begin with
// a dash. Flags may appear anywhere.
//
// Thread-safety: pure functions.
// Errors: InvalidArgument; for unknown flags and verbs it names the nearest
// match.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/words.h"
#include "holdfast/status.h"

namespace holdfast::cli {

// Sorts `words`, which do not include the program's own name. Checks the
// number of operands unless --help or --version was given; values are checked
// by Words::Fill.
Result<Words> ParseWords(const std::vector<std::string>& words);

// Returns the number of insertions, deletions, substitutions and swaps of
// neighbors that separate two words.
size_t EditDistance(std::string_view a, std::string_view b);

// Returns the candidate nearest to `word`, or an empty string if even that is
// too different for a typing error.
std::string_view Nearest(std::string_view word,
                         const std::vector<std::string_view>& candidates);

}  // namespace holdfast::cli
