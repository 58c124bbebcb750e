#include "cli/top/curses.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace holdfast::cli::top {
namespace {

// --- ncurses, with its ABI 6 ---
//
// The header of ncurses is not needed: these functions use only numbers,
// strings and two opaque structures. stdscr, LINES and getmaxyx are not used,
// because they are data or macros.

struct Window;
struct CursesScreen;

// The parameters and the result of each function.
// clang-format off
#define HOLDFAST_CURSES_CALLS(X)                                     \
  X(setupterm, int(const char*, int, int*))                          \
  X(tigetstr, char*(const char*))                                    \
  X(newterm, CursesScreen*(const char*, FILE*, FILE*))               \
  X(newwin, Window*(int, int, int, int))                             \
  X(delwin, int(Window*))                                            \
  X(endwin, int())                                                   \
  X(delscreen, void(CursesScreen*))                                  \
  X(cbreak, int()) X(noecho, int()) X(nonl, int())                   \
  X(keypad, int(Window*, bool)) X(nodelay, int(Window*, bool))       \
  X(set_escdelay, int(int)) X(curs_set, int(int))                    \
  X(has_colors, bool()) X(start_color, int())                        \
  X(use_default_colors, int()) X(init_pair, int(short, short, short)) \
  X(resizeterm, int(int, int)) X(wresize, int(Window*, int, int))    \
  X(wget_wch, int(Window*, wint_t*))                                 \
  X(werase, int(Window*)) X(clearok, int(Window*, bool))             \
  X(wmove, int(Window*, int, int))                                   \
  X(wattrset, int(Window*, int))                                     \
  X(waddnstr, int(Window*, const char*, int))                        \
  X(wrefresh, int(Window*))
// clang-format on

struct CursesCalls {
#define HOLDFAST_MEMBER(name, type) std::type_identity_t<type>* name;
  HOLDFAST_CURSES_CALLS(HOLDFAST_MEMBER)
#undef HOLDFAST_MEMBER
};

constexpr int kKeyCodeYes = 0400;
constexpr int kAttributeReverse = 1 << 18;
constexpr int kAttributeDim = 1 << 20;
constexpr int kAttributeBold = 1 << 21;
constexpr int ColorPair(int pair) { return pair << 8; }
constexpr short kRed = 1, kGreen = 2, kYellow = 3;

bool FindCalls(void* library, CursesCalls& calls) {
  bool all = true;
#define HOLDFAST_FIND(name, type)                                           \
  calls.name =                                                              \
      reinterpret_cast<std::type_identity_t<type>*>(dlsym(library, #name)); \
  all = all && calls.name != nullptr;
  HOLDFAST_CURSES_CALLS(HOLDFAST_FIND)
#undef HOLDFAST_FIND
  return all;
}

// Loads libncursesw. It stays loaded until the process exits.
Result<CursesCalls> LoadCurses() {
  constexpr const char* kFile = "libncursesw.so.6";
  void* library = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  CursesCalls calls = {};
  if (library != nullptr && FindCalls(library, calls)) return calls;
  const char* why = library == nullptr ? dlerror() : "is not that library";
  return FailedPreconditionError(
      "top needs libncursesw, which cannot be loaded; install it (Debian: "
      "libncursesw6, Fedora: ncurses-libs, Alpine: libncursesw). A holdfast "
      "that is one static file loads no library: use Python's, or see "
      "holdfast report (" +
      std::string(why != nullptr ? why : kFile) + ")");
}

// --- Signals ---

// The data of signal handlers: a pipe to which they report signals, and what
// restores the terminal.
int g_signal_pipe[2] = {-1, -1};
termios g_modes_before;
std::array<char, 256> g_restoring_text;
size_t g_restoring_text_size = 0;

extern "C" void OnSignal(int signal) {
  const int error = errno;
  const auto byte = static_cast<char>(signal);
  (void)!write(g_signal_pipe[1], &byte, 1);
  errno = error;
}

// Restores the terminal. This handler is already removed, so raising the signal
// again ends the process.
extern "C" void OnCrash(int signal) {
  (void)!write(STDOUT_FILENO, g_restoring_text.data(), g_restoring_text_size);
  tcsetattr(STDOUT_FILENO, TCSANOW, &g_modes_before);
  raise(signal);
}

constexpr std::array kEnds = {SIGINT, SIGTERM, SIGHUP};
constexpr std::array kCrashes = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV};

class SignalHandlers {
 public:
  SignalHandlers() {
    (void)!pipe2(g_signal_pipe, O_CLOEXEC | O_NONBLOCK);
    for (const int signal : kEnds) Catch(signal, OnSignal, 0);
    Catch(SIGWINCH, OnSignal, SA_RESTART);
    for (const int signal : kCrashes) {
      Catch(signal, OnCrash, static_cast<int>(SA_RESETHAND));
    }
  }
  ~SignalHandlers() {
    for (const auto& [signal, action] : before_) {
      sigaction(signal, &action, nullptr);
    }
    for (int& end : g_signal_pipe) close(std::exchange(end, -1));
  }
  SignalHandlers(const SignalHandlers&) = delete;
  SignalHandlers& operator=(const SignalHandlers&) = delete;

 private:
  void Catch(int signal, void (*handler)(int), int flags) {
    struct sigaction action = {}, before = {};
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigaction(signal, &action, &before);
    before_.emplace_back(signal, before);
  }

  std::vector<std::pair<int, struct sigaction>> before_;
};

// --- The terminal ---

Key KeyOf(int kind, wint_t code) {
  if (kind != kKeyCodeYes) {
    switch (code) {
      case '\r':
      case '\n':
        return kKeyEnter;
      case '\t':
        return kKeyTab;
      case 27:
        return kKeyEscape;
      case 8:
      case 127:
        return kKeyBackspace;
      default:
        return static_cast<Key>(code);
    }
  }
  switch (code) {
    case 0402:
      return kKeyDown;
    case 0403:
      return kKeyUp;
    case 0404:
      return kKeyLeft;
    case 0405:
      return kKeyRight;
    case 0406:
      return kKeyHome;
    case 0407:
      return kKeyBackspace;
    case 0522:
      return kKeyPageDown;
    case 0523:
      return kKeyPageUp;
    case 0527:
      return kKeyEnter;
    case 0541:  // with Shift
      return kKeyTab;
    case 0550:
      return kKeyEnd;
    default:
      return 0;
  }
}

Size TerminalSize() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return {};
  }
  return {.rows = size.ws_row, .columns = size.ws_col};
}

class CursesTerminal : public Terminal {
 public:
  CursesTerminal(const CursesCalls& curses, CursesScreen* screen,
                 bool use_color)
      : curses_(curses), screen_(screen), size_(TerminalSize()) {
    curses_.cbreak();
    curses_.noecho();
    curses_.nonl();
    curses_.set_escdelay(50);
    curses_.curs_set(0);
    has_color_ = use_color && curses_.has_colors();
    if (has_color_) {
      curses_.start_color();
      curses_.use_default_colors();
      for (const short color : {kRed, kGreen, kYellow}) {
        curses_.init_pair(color, color, -1);
      }
    }
    // Set the size explicitly, because ncurses would use LINES and COLUMNS of
    // the environment.
    curses_.resizeterm(static_cast<int>(size_.rows),
                       static_cast<int>(size_.columns));
    window_ = curses_.newwin(0, 0, 0, 0);
    curses_.keypad(window_, true);
    curses_.nodelay(window_, true);
  }

  ~CursesTerminal() override {
    curses_.werase(window_);
    curses_.wrefresh(window_);
    curses_.curs_set(1);
    curses_.delwin(window_);
    curses_.endwin();
    curses_.delscreen(screen_);
  }

  Size size() const override { return size_; }

  void Draw(const Screen& screen) override {
    curses_.werase(window_);
    for (size_t row = 0; row < screen.size(); ++row) {
      curses_.wmove(window_, static_cast<int>(row), 0);
      for (const Span& span : screen[row]) {
        curses_.wattrset(window_, AttributesOf(span.style));
        curses_.waddnstr(window_, span.text.data(),
                         static_cast<int>(span.text.size()));
      }
    }
    curses_.wrefresh(window_);
  }

  Event Wait(double seconds_max) override {
    std::array<pollfd, 2> waits = {pollfd{STDIN_FILENO, POLLIN, 0},
                                   pollfd{g_signal_pipe[0], POLLIN, 0}};
    poll(waits.data(), waits.size(), static_cast<int>(seconds_max * 1000));
    Event event;
    char byte = 0;
    while (read(g_signal_pipe[0], &byte, 1) == 1) TakeByte(byte, event);
    // The terminal was closed.
    if ((waits[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) {
      event.signal = SIGHUP;
    }
    wint_t code = 0;
    for (int kind = 0; (kind = curses_.wget_wch(window_, &code)) >= 0;) {
      if (const Key key = KeyOf(kind, code)) event.keys.push_back(key);
    }
    return event;
  }

  void Wake() override {
    const char byte = 0;
    (void)!write(g_signal_pipe[1], &byte, 1);
  }

 private:
  void TakeByte(char byte, Event& event) {
    if (byte == 0) return;
    if (byte != SIGWINCH) {
      event.signal = byte;
      return;
    }
    size_ = TerminalSize();
    const int rows = static_cast<int>(size_.rows);
    const int columns = static_cast<int>(size_.columns);
    curses_.resizeterm(rows, columns);
    curses_.wresize(window_, rows, columns);
    curses_.clearok(window_, true);
  }

  int AttributesOf(Style style) const {
    const auto colored = [this](short color, int otherwise) {
      return has_color_ ? ColorPair(color) : otherwise;
    };
    switch (style) {
      case Style::kPlain:
        return 0;
      case Style::kBold:
        return kAttributeBold;
      case Style::kDim:
        return kAttributeDim;
      case Style::kSelected:
        return kAttributeReverse | kAttributeBold;
      case Style::kBar:
        return kAttributeReverse;
      case Style::kGood:
        return colored(kGreen, 0);
      case Style::kBad:
        return colored(kRed, kAttributeBold);
      case Style::kLive:
        return colored(kYellow, kAttributeBold);
    }
    return 0;
  }

  const SignalHandlers signals_;
  const CursesCalls curses_;
  CursesScreen* const screen_;
  Window* window_ = nullptr;
  Size size_;
  bool has_color_ = false;
};

// Stores what a crash handler needs: the terminal's modes, and the sequences
// that leave the full screen and show the cursor.
void RememberHowToRestore(const CursesCalls& curses) {
  tcgetattr(STDOUT_FILENO, &g_modes_before);
  g_restoring_text_size = 0;
  for (const char* name : {"sgr0", "rmcup", "cnorm", "rmkx"}) {
    const char* text = curses.tigetstr(name);
    if (text == nullptr || text == reinterpret_cast<char*>(-1)) continue;
    const size_t size = std::strlen(text);
    if (g_restoring_text_size + size > g_restoring_text.size()) continue;
    std::memcpy(g_restoring_text.data() + g_restoring_text_size, text, size);
    g_restoring_text_size += size;
  }
}

}  // namespace

Result<std::unique_ptr<Terminal>> OpenTerminal(bool use_color) {
  if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0) {
    return FailedPreconditionError(
        "top wants a terminal for standard input and output; holdfast steps, "
        "tree and report do without");
  }
  const char* name = std::getenv("TERM");
  const std::string term = name != nullptr ? name : "";
  if (term.empty() || term == "dumb") {
    return FailedPreconditionError(
        "top wants a terminal that can move its cursor (TERM is '" + term +
        "'); holdfast steps, tree and report do without");
  }
  auto curses = LoadCurses();
  if (!curses.ok()) return curses.status();
  int found = 0;
  curses->setupterm(nullptr, STDOUT_FILENO, &found);
  const char* moves = found == 1 ? curses->tigetstr("cup") : nullptr;
  if (moves == nullptr || moves == reinterpret_cast<char*>(-1)) {
    return FailedPreconditionError(
        "top wants a terminal that can move its cursor, and is known (TERM is "
        "'" +
        term + "')");
  }
  RememberHowToRestore(*curses);
  CursesScreen* screen = curses->newterm(nullptr, stdout, stdin);
  if (screen == nullptr) {
    return FailedPreconditionError("top cannot set up the terminal '" + term +
                                   "'");
  }
  return std::unique_ptr<Terminal>(
      std::make_unique<CursesTerminal>(*curses, screen, use_color));
}

}  // namespace holdfast::cli::top
