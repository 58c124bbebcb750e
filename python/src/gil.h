// The GIL given back and taken, also while Python ends.
//
// A program that ends while other threads of Python's are at work (daemon
// threads) ends them when they next ask for the GIL: by pthread_exit, before
// Python 3.14, which unwinds the thread's stack through frames of C++ that
// nothing may unwind. Whatever in this module takes the GIL, or calls Python
// where it may lose it, does so by these, and stays where it is instead: its
// memory is used by nobody else, and the process is about to end.
//
// Thread-safety: any thread.
#pragma once

#include <Python.h>

#include <exception>
#ifdef __GLIBCXX__
#include <cxxabi.h>
#endif

namespace holdfast::python {

// True from when only the ending thread gets the GIL.
bool IsPythonEnding();
// Keeps the calling thread until the process has ended.
[[noreturn]] void StayUntilTheEnd();
// For calls of Python that nanobind makes by itself: std::terminate, which
// their unwinding comes to, stays, too. Once, when the module is made.
void StayWherePythonEndsThreads();

// `call`, which takes the GIL or may lose it and take it again.
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

// Without the GIL while it lives. REQUIRES: the thread holds it.
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

// With the GIL while it lives, on any thread. REQUIRES: Python has not ended.
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
