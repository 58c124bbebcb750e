// Runs a shell command on one path. The command gets the path from an
// environment variable. The text that the shell parses contains the path only
// inside quotes, and only if the path has no special characters, so no file
// name can become a command.
//
// Thread-safety: RunShell starts a process; ShellText is a pure function.
// Errors: FailedPrecondition for a path with special characters inside quotes;
// Unavailable when no shell can be started.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

// Replaces each `placeholder` ("{}") in `command` by a reference to the
// environment variable `variable`, which makes up one argument or part of one.
// Inside single quotes, or next to other words in double quotes, the
// placeholder may be part of another program's text (sh -c, python -c). There,
// only a path that has no special meaning in any language is accepted.
Result<std::string> ShellText(std::string_view command,
                              std::string_view placeholder,
                              std::string_view variable, std::string_view path);

// Runs `text` with /bin/sh, with these variables added to the process's
// environment and the output sent to standard error. Returns the status that
// waitpid reports.
Result<int> RunShell(
    const std::string& text,
    const std::vector<std::pair<std::string, std::string>>& variables);

}  // namespace holdfast
