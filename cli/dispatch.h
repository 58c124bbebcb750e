// Runs a command line and returns its exit code: parses the words, answers
// --help and --version, runs the verb. It does what main() does, but for any
// Env.
//
// Thread-safety: one call at a time per Env.
#pragma once

#include <string>
#include <vector>

#include "cli/env.h"

namespace holdfast::cli {

// Runs the command line `words`, which does not include the program's own name.
int RunCommand(const std::vector<std::string>& words, Env& env);

}  // namespace holdfast::cli
