// The holdfast command's process: makes the Env of the real world and runs a
// verb in it.
#include "cli/process.h"

#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "cli/dispatch.h"
#include "cli/report.h"
#include "holdfast/mpi.h"

namespace {

std::atomic<bool> g_cancel{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void OnInterrupt(int) { g_cancel.store(true); }

// The first Ctrl-C asks the verb to stop; the handler is then gone, so that
// the second one ends the process.
void CatchInterrupt() {
  struct sigaction action = {};
  action.sa_handler = OnInterrupt;
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
}

int TerminalColumns() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0) return 80;
  return size.ws_col > 0 ? size.ws_col : 80;
}

bool LocaleIsUtf8() {
  std::setlocale(LC_CTYPE, "");
  return std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

bool NoColor() {
  const char* value = std::getenv("NO_COLOR");
  return value != nullptr && *value != '\0';
}

int Run(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  // Listings of 100,000 leaves go out in few writes.
  static char buffer[1 << 16];
  std::cout.rdbuf()->pubsetbuf(buffer, sizeof(buffer));
  CatchInterrupt();
  holdfast::cli::Env env{.out = std::cout, .err = std::cerr};
  env.out_is_terminal = isatty(STDOUT_FILENO) == 1;
  env.err_is_terminal = isatty(STDERR_FILENO) == 1;
  env.utf8 = LocaleIsUtf8();
  env.no_color = NoColor();
  env.columns = TerminalColumns();
  env.cancel = &g_cancel;
  env.mpi_transport = [] { return holdfast::MpiTransport(); };
  env.is_started_by_mpi = holdfast::StartedByMpi();
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  const int code = holdfast::cli::RunCommand(words, env);
  std::cout.flush();
  return code;
}

// Avoids std::cerr, whose buffer may be what there was no memory for.
int FailOutOfMemory() {
  constexpr std::string_view kText = "holdfast: the process is out of memory\n";
  (void)!write(STDERR_FILENO, kText.data(), kText.size());
  return holdfast::cli::kExitFailure;
}

}  // namespace

int holdfast::cli::RunProcess(int argc, char** argv) {
  // Only the standard library can throw here.
  try {
    return Run(argc, argv);
  } catch (const std::bad_alloc&) {
    return FailOutOfMemory();
  } catch (const std::exception& error) {
    std::cerr << "holdfast: " << error.what() << '\n';
    return holdfast::cli::kExitFailure;
  }
}
