#include "gil.h"

#include <unistd.h>

#include <cstdlib>

// Python exports these, but does not declare them for the stable ABI of 3.12.
extern "C" {
int PyGILState_Check();
[[gnu::weak]] int Py_IsFinalizing();   // from 3.13 on
[[gnu::weak]] int _Py_IsFinalizing();  // before 3.13
}

namespace holdfast::python {
namespace {

std::terminate_handler g_terminate_before = nullptr;

// The handler of std::terminate. Blocks forever if Python is unwinding this
// thread: Python is ending, there is no current exception, and the thread does
// not hold the GIL.
[[noreturn]] void TerminateUnlessPythonEnds() {
  if (IsPythonEnding() && !std::current_exception() &&
      PyGILState_Check() == 0) {
    StayUntilTheEnd();
  }
  if (g_terminate_before != nullptr) g_terminate_before();
  std::abort();
}

}  // namespace

bool IsPythonEnding() {
  const auto is_finalizing =
      Py_IsFinalizing != nullptr ? Py_IsFinalizing : _Py_IsFinalizing;
  return is_finalizing() != 0 || Py_IsInitialized() == 0;
}

void StayUntilTheEnd() {
  for (;;) ::pause();
}

void StayWherePythonEndsThreads() {
  g_terminate_before = std::set_terminate(TerminateUnlessPythonEnds);
}

}  // namespace holdfast::python
