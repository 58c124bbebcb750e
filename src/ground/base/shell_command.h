// A shell command about one path, which is passed as an argument: the text that
// the shell parses never contains the path, so no file name can become a
// command.
//
// Thread-safety: RunShell starts a process; the rest are pure functions.
// Errors: FailedPrecondition for a path that a command would have to read as
// text; Unavailable when no shell can be started.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

// Replaces each `placeholder` ("{}") in `command` by a reference to the
// environment variable `variable`, which makes up one argument or part of one.
// Inside single quotes, or among other words in double quotes, the placeholder
// is part of another program's text (sh -c, python -c); there only a path that
// has no special meaning in any language is accepted.
Result<std::string> ShellText(std::string_view command,
                              std::string_view placeholder,
                              std::string_view variable, std::string_view path);

// Runs `text` with /bin/sh, with these variables added to the process's
// environment and its output sent to standard error; returns the status that
// waitpid reports.
Result<int> RunShell(
    const std::string& text,
    const std::vector<std::pair<std::string, std::string>>& variables);

}  // namespace holdfast
