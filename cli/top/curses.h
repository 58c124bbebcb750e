// Loads the system's libncursesw when `holdfast top` first needs it, so that
// none of holdfast's files depends on it, and makes a Terminal with it.
//
// Errors: FailedPrecondition if standard input or output is not a terminal, if
// the terminal is unknown or cannot move its cursor (TERM=dumb), or if
// libncursesw is missing, with what to install.
#pragma once

#include <memory>

#include "cli/top/screen.h"
#include "holdfast/status.h"

namespace holdfast::cli::top {

// Opens the terminal; only one may be open at a time. It catches SIGINT,
// SIGTERM, SIGHUP and SIGWINCH until it is destroyed. The terminal is also
// restored when the process crashes (SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV).
Result<std::unique_ptr<Terminal>> OpenTerminal(bool use_color);

}  // namespace holdfast::cli::top
