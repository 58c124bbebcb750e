#include "errors.h"

#include <nanobind/nanobind.h>

#include <exception>
#include <string_view>

namespace nb = nanobind;

namespace holdfast::python {
namespace {

const char* ClassName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
    case StatusCode::kInternal:
      return "InternalError";
    case StatusCode::kInvalidArgument:
      return "InvalidArgumentError";
    case StatusCode::kNotFound:
      return "NotFoundError";
    case StatusCode::kAlreadyExists:
      return "AlreadyExistsError";
    case StatusCode::kFailedPrecondition:
      return "FailedPreconditionError";
    case StatusCode::kOutOfRange:
      return "OutOfRangeError";
    case StatusCode::kPermissionDenied:
      return "PermissionDeniedError";
    case StatusCode::kResourceExhausted:
      return "ResourceExhaustedError";
    case StatusCode::kUnavailable:
      return "UnavailableError";
    case StatusCode::kUnimplemented:
      return "UnimplementedError";
    case StatusCode::kCancelled:
      return "CancelledError";
    case StatusCode::kDeadlineExceeded:
      return "DeadlineExceededError";
    case StatusCode::kDataLoss:
      return "DataLossError";
  }
  return "InternalError";
}

}  // namespace

PyObject* NewException(const Status& status) {
  PyObject* module = PyImport_ImportModule("holdfast.errors");
  if (module == nullptr) return nullptr;
  PyObject* type = PyObject_GetAttrString(module, ClassName(status.code()));
  Py_DECREF(module);
  if (type == nullptr) return nullptr;
  // A message may quote bytes of a damaged file.
  const std::string_view text = status.message();
  PyObject* message = PyUnicode_DecodeUTF8(
      text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace");
  PyObject* error = nullptr;
  if (message != nullptr) error = PyObject_CallOneArg(type, message);
  Py_XDECREF(message);
  Py_DECREF(type);
  return error;
}

void SetPythonError(const Status& status) {
  PyObject* error = NewException(status);
  if (error == nullptr) return;  // an error is set already
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  Py_DECREF(error);
}

void RegisterErrors() {
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void*) {
        try {
          std::rethrow_exception(thrown);
        } catch (const StatusError& error) {
          SetPythonError(error.status());
        }
      });
}

}  // namespace holdfast::python
