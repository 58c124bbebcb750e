// Help text and the manual page, generated from the tables of cli/flags.h.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "cli/flags.h"

namespace holdfast::cli {

// Returns the text of `holdfast --help`.
std::string GeneralHelp();
// Returns the text of `holdfast VERB --help`, with the verb's flags and
// examples.
std::string VerbHelp(const Verb& verb);
// Returns the hint for a bad command line of this verb.
std::string UsageHint(const Verb& verb);
// Returns the output of `holdfast man`: roff for man(1).
std::string ManPage();

// Returns the flag as it is typed: "-l, --long", "    --sort KEY".
std::string FlagSpelling(const Flag& flag);
// Returns the words of a list of the table, as "a|b" for the separator "|".
std::string Joined(std::string_view list, std::string_view separator);
// Returns the help sentence, followed by choices and default.
std::string FlagHelp(const Flag& flag);

}  // namespace holdfast::cli
