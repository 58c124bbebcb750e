// From words to an exit code: parses, answers --help and --version, runs the
// verb. main() without the process around it.
//
// Thread-safety: one call at a time for an Env.
#pragma once

#include <string>
#include <vector>

#include "cli/env.h"

namespace holdfast::cli {

// `words` without the program's own name.
int RunCommand(const std::vector<std::string>& words, Env& env);

}  // namespace holdfast::cli
