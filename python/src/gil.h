// Releases and acquires the GIL, also while Python is finalizing.
//
// If a program ends while other Python threads (daemon threads) are running,
// Python ends each of them when it next acquires the GIL. Before Python 3.14 it
// does so with pthread_exit, which unwinds the thread's stack through C++
// frames that must not be unwound. All code of this module that acquires the
// GIL, or calls Python where it may lose the GIL, uses these helpers. They make
// the thread block forever instead, which is harmless, because the process is
// about to end.
//
// Thread-safety: any thread.
#pragma once

#include <Python.h>

#include <exception>
#ifdef __GLIBCXX__
#include <cxxabi.h>
#endif

namespace holdfast::python {

// True once only the finalizing thread can get the GIL.
bool IsPythonEnding();
// Blocks the calling thread until the process has ended.
[[noreturn]] void StayUntilTheEnd();
// Does the same for nanobind's own calls of Python: unwinding their frames ends
// in std::terminate, which then blocks forever. Call this once, when the module
// is created.
void StayWherePythonEndsThreads();

// Runs `call`, which acquires the GIL or may lose and reacquire it. Blocks
// forever if Python ends the thread meanwhile.
template <typename Call>
auto StayingAtTheEnd(const Call& call) {
#ifdef __GLIBCXX__
  try {
    return call();
  } catch (const abi::__forced_unwind&) {
    StayUntilTheEnd();
  }
#else
  return call();
#endif
}

// Releases the GIL during its lifetime. REQUIRES: the thread holds it.
class GilRelease {
 public:
  GilRelease() : state_(PyEval_SaveThread()) {}
  ~GilRelease() {
    StayingAtTheEnd([this] { PyEval_RestoreThread(state_); });
  }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* const state_;
};

// Holds the GIL during its lifetime, on any thread. REQUIRES: Python has not
// ended.
class GilAcquire {
 public:
  GilAcquire() : state_(StayingAtTheEnd([] { return PyGILState_Ensure(); })) {}
  ~GilAcquire() { PyGILState_Release(state_); }
  GilAcquire(const GilAcquire&) = delete;
  GilAcquire& operator=(const GilAcquire&) = delete;

 private:
  const PyGILState_STATE state_;
};

}  // namespace holdfast::python
