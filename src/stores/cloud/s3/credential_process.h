// Runs the program of a profile's credential_process and returns its output.
//
// Its standard error is the caller's, so that it can ask for a code; no message
// contains any of its output.
// Thread-safety: any thread. Units: bytes, seconds.
// Errors: InvalidArgument (unclosed quotes, an empty command), PermissionDenied
// (it cannot be run, or fails), DeadlineExceeded, DataLoss (it prints more than
// 1 MiB).
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

// Splits at spaces as a shell would, with 'single' and "double" quotes and
// backslashes; expands nothing.
Result<std::vector<std::string>> SplitCommand(std::string_view command);

Result<std::string> RunCredentialProcess(std::string_view command,
                                         std::chrono::seconds deadline);

}  // namespace holdfast
