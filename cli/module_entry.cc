// The holdfast command, out of Python's module: a wheel holds the engine once.
// python/_holdfast_command calls it by ctypes.
#include <csignal>

#include "cli/process.h"

// As main(). Python ignores SIGPIPE; a command's reader may leave.
extern "C" __attribute__((visibility("default"))) int holdfast_command(
    int argc, char** argv) {
  std::signal(SIGPIPE, SIG_DFL);
  return holdfast::cli::RunProcess(argc, argv);
}
