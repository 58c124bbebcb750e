// Raises failures in Python: a Status becomes the class of `holdfast.errors`
// that its code names, with the Status's message as the only argument.
//
// Thread-safety: needs the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <utility>

#include "holdfast/status.h"

namespace holdfast::python {

// Thrown by the bindings; translated at the boundary to Python.
class StatusError {
 public:
  explicit StatusError(Status status) : status_(std::move(status)) {}
  const Status& status() const { return status_; }

 private:
  Status status_;
};

// Throws unless the status is ok.
inline void Check(Status status) {
  if (!status.ok()) throw StatusError(std::move(status));
}
template <typename T>
T Check(Result<T> result) {
  if (!result.ok()) throw StatusError(result.status());
  return *std::move(result);
}
[[noreturn]] inline void ThrowValueError(std::string message) {
  throw StatusError(InvalidArgumentError(std::move(message)));
}

// Returns a new reference to the exception for `status`; null with a Python
// error set if it cannot be made.
PyObject* NewException(const Status& status);
// Sets the current Python error.
void SetPythonError(const Status& status);
// Turns an exception into a Status. Its code is the one whose class in
// `holdfast.errors` `exception` is an instance of, or the code of the nearest
// built-in exception, or kUnavailable. Its message is the exception's text,
// with the class's name in front unless the class is in `holdfast.errors`.
Status StatusOf(nanobind::handle exception);
// Registers the translation of StatusError.
void RegisterErrors();

}  // namespace holdfast::python
