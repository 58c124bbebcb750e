// The holdfast command as a function: the real streams, terminal, locale and
// signals.
//
// Thread-safety: once a process. SIGINT is the command's from then on.
#pragma once

namespace holdfast::cli {

// As main(): returns the exit status, all output written.
int RunProcess(int argc, char** argv);

}  // namespace holdfast::cli
