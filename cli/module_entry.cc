// The holdfast command, called from Python's module, so that a wheel contains
// the engine only once. python/_holdfast_command calls it with ctypes.
#include <csignal>

#include "cli/process.h"

// Does what main() does. Python ignores SIGPIPE, but a command must end when
// the reader of its output does.
extern "C" __attribute__((visibility("default"))) int holdfast_command(
    int argc, char** argv) {
  std::signal(SIGPIPE, SIG_DFL);
  return holdfast::cli::RunProcess(argc, argv);
}
