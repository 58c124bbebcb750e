// Command line words -> Args, GNU style: --flag=value, --flag value, -x value,
// -xvalue, bundled switches, and `--` before operands that begin with a dash.
// Flags may stand anywhere.
//
// Thread-safety: pure functions.
// Errors: InvalidArgument; unknown flags and verbs name the nearest one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/args.h"
#include "holdfast/status.h"

namespace holdfast::cli {

// `words` without the program's own name. Operand counts are checked unless
// --help or --version was given.
Result<Args> ParseArgs(const std::vector<std::string>& words);

// Insertions, deletions, substitutions and swaps of neighbours between two
// words.
size_t EditDistance(std::string_view a, std::string_view b);

// The candidate nearest to `word`; empty when none is near enough to be a
// typing error.
std::string_view Nearest(std::string_view word,
                         const std::vector<std::string_view>& candidates);

}  // namespace holdfast::cli
