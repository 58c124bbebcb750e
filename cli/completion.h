// Shell completion scripts, generated from the tables of cli/flags.h.
//
// Thread-safety: pure functions.
// Errors: InvalidArgument for an unknown shell.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast::cli {

// Returns the script for a shell: "bash", "zsh" or "fish".
Result<std::string> CompletionScript(std::string_view shell);

}  // namespace holdfast::cli
