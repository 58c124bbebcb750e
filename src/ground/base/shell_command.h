// A command of the shell about one path, which reaches it as an argument: the
// text that the shell reads never holds the path, so that no name of a file
// can become a command.
//
// Thread-safety: RunShell starts a process; the rest are pure functions.
// Errors: FailedPrecondition for a path that a command would have to take as
// text; Unavailable when no shell can be started.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

// `command` with the value of the environment variable `variable` wherever it
// says `placeholder` ("{}"): one argument, or a part of one where it stands in
// a word. In single quotes, and among other words in double quotes, it is text
// of another program (sh -c, python -c): there only a path goes that means
// nothing but itself in any language.
Result<std::string> ShellText(std::string_view command,
                              std::string_view placeholder,
                              std::string_view variable, std::string_view path);

// Runs `text` by /bin/sh with these variables beside the process's own, its
// output on standard error; returns what waitpid says of it.
Result<int> RunShell(
    const std::string& text,
    const std::vector<std::pair<std::string, std::string>>& variables);

}  // namespace holdfast
