// Env: a verb's environment. Because of it, verbs run in tests without a
// terminal, a clock or signals.
//
// Thread-safety: one verb uses an Env at a time; a signal handler may set
// `cancel`.
// Ownership: borrows the streams and the flag.
// Units: seconds of a steady clock; terminal columns.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "cli/top/screen.h"
#include "holdfast/process_group.h"

namespace holdfast::cli {

struct Env {
  std::ostream& out;
  std::ostream& err;
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  bool utf8 = true;       // the locale can show box-drawing characters
  bool no_color = false;  // the NO_COLOR convention
  int columns = 80;
  std::function<double()> now_seconds;  // steady; empty: the real one
  const std::atomic<bool>* cancel = nullptr;
  // Connects to the other processes that mpirun started; empty if that is not
  // possible.
  std::function<Result<std::shared_ptr<ProcessTransport>>()> mpi_transport;
  bool is_started_by_mpi = false;
  // Makes env.out go through a pager from now on. Empty without a pager.
  std::function<void()> start_pager;
  // Opens the terminal as a full screen, for `top`. Empty without a terminal.
  std::function<Result<std::unique_ptr<top::Terminal>>(bool use_color)>
      open_terminal;
  bool json_errors = false;  // --json: errors are printed as JSON objects, too

  bool cancelled() const { return cancel != nullptr && cancel->load(); }
};

}  // namespace holdfast::cli
