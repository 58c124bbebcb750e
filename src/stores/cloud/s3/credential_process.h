// Runs the program of a profile's credential_process and takes what it prints.
//
// Its standard error is the caller's, so that it can ask for a code; nothing it
// prints is in any message.
// Thread-safety: any thread. Units: bytes, seconds.
// Errors: InvalidArgument (quotes that do not close, an empty command),
// PermissionDenied (it cannot be run, or ends with a failure),
// DeadlineExceeded, DataLoss (it prints more than 1 MiB).
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

// Splits at spaces, with 'single' and "double" quotes and backslashes, as a
// shell would; expands nothing.
Result<std::vector<std::string>> SplitCommand(std::string_view command);

Result<std::string> RunCredentialProcess(std::string_view command,
                                         std::chrono::seconds deadline);

}  // namespace holdfast
