// Help text and the manual page, generated from the tables of cli/flags.h.
//
// Thread-safety: pure functions.
#pragma once

#include <string>

#include "cli/flags.h"

namespace holdfast::cli {

// `holdfast --help`.
std::string GeneralHelp();
// `holdfast VERB --help`, with its flags and examples.
std::string VerbHelp(const Verb& verb);
// `holdfast man`: roff for man(1).
std::string ManPage();

// "-l, --long", "    --sort KEY".
std::string FlagSpelling(const Flag& flag);
// The help sentence, followed by choices and default.
std::string FlagHelp(const Flag& flag);

}  // namespace holdfast::cli
