// Runs the holdfast command: makes the Env of the real process, and runs a verb
// in it.
#include "cli/process.h"

#include <fcntl.h>
#include <langinfo.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
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
#include "cli/failures.h"
#include "cli/top/curses.h"
#include "holdfast/mpi.h"

namespace {

std::atomic<bool> g_cancel{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void OnInterrupt(int) { g_cancel.store(true); }

// Makes the first Ctrl-C ask the verb to stop. It also removes the handler, so
// that the second Ctrl-C ends the process.
void CatchInterrupt() {
  struct sigaction action = {};
  action.sa_handler = OnInterrupt;
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
}

int TerminalColumns() {
  for (const int terminal : {STDOUT_FILENO, STDERR_FILENO}) {
    winsize size = {};
    if (ioctl(terminal, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
      return size.ws_col;
    }
  }
  return 80;
}

// Pipes standard output through $PAGER, or through less, which exits by itself
// if everything fits the terminal.
class Pager {
 public:
  // Does nothing if no pager is found.
  void Start() {
    if (pid_ > 0) return;
    const char* script = std::getenv("PAGER");
    if (script == nullptr) {
      script = "command -v less >/dev/null && exec less; exec cat";
    }
    if (*script == '\0') return;
    setenv("LESS", "FRX", 0);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
    const char* words[] = {"sh", "-c", script, nullptr};
    if (posix_spawnp(&pid_, "sh", &actions, nullptr, const_cast<char**>(words),
                     environ) != 0) {
      pid_ = 0;
    } else {
      dup2(ends[1], STDOUT_FILENO);
    }
    posix_spawn_file_actions_destroy(&actions);
    close(ends[0]);
    close(ends[1]);
  }

  // Writes all output, and returns when the user has quit the pager.
  void Wait() {
    if (pid_ == 0) return;
    close(STDOUT_FILENO);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

 private:
  pid_t pid_ = 0;
};

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
  // A large buffer, so that long listings need few writes.
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
  Pager pager;
  env.start_pager = [&pager] { pager.Start(); };
  env.open_terminal = holdfast::cli::top::OpenTerminal;
  env.mpi_transport = [] { return holdfast::MpiTransport(); };
  env.is_started_by_mpi = holdfast::StartedByMpi();
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  const int code = holdfast::cli::RunCommand(words, env);
  std::cout.flush();
  pager.Wait();
  return code;
}

// Does not use std::cerr, because allocating its buffer may be what failed.
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
