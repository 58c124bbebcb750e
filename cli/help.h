// Help text and the manual page, generated from the tables of cli/flags.h.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "cli/flags.h"

namespace holdfast::cli {

// Returns what `holdfast` without a verb prints: verbs by group, on one screen.
std::string Overview();
// Returns the text of `holdfast --help`.
std::string GeneralHelp();
// Returns the text of `holdfast VERB --help`, with the verb's flags and
// examples: its own first, then those it shares, by group. Those of object
// stores are only named, unless `with_stores`.
std::string VerbHelp(const Verb& verb, bool with_stores = false);
// Returns the text of `holdfast help GROUP` for a group of options with a
// title; otherwise an empty text.
std::string GroupHelp(std::string_view group);
// Returns the hint for a bad command line of this verb.
std::string UsageHint(const Verb& verb);
// Returns the output of `holdfast man`: roff for man(1).
std::string ManPage();

// Returns the flag as it is typed: "-l, --long", "    --sort KEY".
std::string FlagSpelling(const Flag& flag);
// Returns the words of a list of the table, as "a|b" for the separator "|".
std::string Joined(std::string_view list, std::string_view separator);
// Returns the help sentence for a verb.
std::string_view HelpOf(const Flag& flag, const Verb& verb);
// Returns a help sentence, followed by choices and default.
std::string FlagHelp(const Flag& flag, std::string_view sentence);

}  // namespace holdfast::cli
