#include "gil.h"

#include <unistd.h>

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
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsFinalizing() != 0 || Py_IsInitialized() == 0;
#else
  return _Py_IsFinalizing() != 0 || Py_IsInitialized() == 0;
#endif
}

void StayUntilTheEnd() {
  for (;;) ::pause();
}

void StayWherePythonEndsThreads() {
  g_terminate_before = std::set_terminate(TerminateUnlessPythonEnds);
}

}  // namespace holdfast::python
