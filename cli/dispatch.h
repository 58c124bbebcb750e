// Runs a command line and returns its exit code: parses the words, answers
// --help and --version, runs the verb. This is main() without the process
// around it.
//
// Thread-safety: one call at a time per Env.
#pragma once

#include <string>
#include <vector>

#include "cli/env.h"

namespace holdfast::cli {

// `words` does not include the program's own name.
int RunCommand(const std::vector<std::string>& words, Env& env);

}  // namespace holdfast::cli
