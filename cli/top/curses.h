// The system's libncursesw, loaded when `holdfast top` first wants it, so that
// no file of ours depends on it; and a Terminal made of it.
//
// Errors: FailedPrecondition where standard input or output is not a terminal,
// where it cannot move its cursor (TERM=dumb), is not known, or where
// libncursesw is missing, with what to install.
#pragma once

#include <memory>

#include "cli/top/screen.h"
#include "holdfast/status.h"

namespace holdfast::cli::top {

// One at a time. Catches SIGINT, SIGTERM, SIGHUP and SIGWINCH until it goes;
// restores the terminal, too, when the process ends by a mistake of its own
// (SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV).
Result<std::unique_ptr<Terminal>> OpenTerminal(bool use_color);

}  // namespace holdfast::cli::top
