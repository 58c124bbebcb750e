// Runs the program of a profile's credential_process and returns its output.
//
// The program shares the caller's standard error, so that it can ask for a
// code. No message contains any of its output.
// Thread-safety: any thread. Units: bytes, seconds.
// Errors: InvalidArgument (unclosed quotes, an empty command), PermissionDenied
// (the program cannot be run, or fails), DeadlineExceeded, DataLoss (it prints
// more than 1 MiB).
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

// Splits a command at spaces as a shell would, with 'single' and "double"
// quotes and backslashes. Expands nothing.
Result<std::vector<std::string>> SplitCommand(std::string_view command);

Result<std::string> RunCredentialProcess(std::string_view command,
                                         std::chrono::seconds deadline);

}  // namespace holdfast
