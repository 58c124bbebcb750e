// ProcessPtr<T>: a unique_ptr that deletes its object only in the process that
// made it. It is for owners of threads: a child of fork() has a copy of the
// object but none of its threads, so joining them would crash, and destroying
// what they wait on would block forever. A child that drops such an object
// leaves it untouched.
//
// Thread-safety: that of unique_ptr. Ownership: unique; in a forked child the
// object's memory stays until the child ends.
// Errors: none.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <memory>
#include <utility>

namespace holdfast {

struct DeleteInItsProcess {
  template <typename T>
  void operator()(T* object) const {
    if (::getpid() == process) delete object;
  }
  ::pid_t process = ::getpid();
};

template <typename T>
using ProcessPtr = std::unique_ptr<T, DeleteInItsProcess>;

template <typename T, typename... Args>
ProcessPtr<T> MakeInProcess(Args&&... args) {
  return ProcessPtr<T>(new T(std::forward<Args>(args)...));
}

}  // namespace holdfast
