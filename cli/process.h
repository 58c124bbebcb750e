// Runs the holdfast command with the real streams, terminal, locale and
// signals.
//
// Thread-safety: call it once per process. From then on the command handles
// SIGINT.
#pragma once

namespace holdfast::cli {

// Does what main() does. Returns the exit status after all output was written.
int RunProcess(int argc, char** argv);

}  // namespace holdfast::cli
