// The holdfast command as a function, with the real streams, terminal, locale
// and signals.
//
// Thread-safety: call it once per process. From then on the command handles
// SIGINT.
#pragma once

namespace holdfast::cli {

// Behaves as main(): returns the exit status, with all output written.
int RunProcess(int argc, char** argv);

}  // namespace holdfast::cli
