#include "errors.h"

#include <nanobind/nanobind.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

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

constexpr std::array kFailureCodes = {
    StatusCode::kInvalidArgument,   StatusCode::kNotFound,
    StatusCode::kAlreadyExists,     StatusCode::kFailedPrecondition,
    StatusCode::kOutOfRange,        StatusCode::kPermissionDenied,
    StatusCode::kResourceExhausted, StatusCode::kUnavailable,
    StatusCode::kUnimplemented,     StatusCode::kCancelled,
    StatusCode::kDeadlineExceeded,  StatusCode::kDataLoss,
    StatusCode::kInternal,
};

bool IsInstance(nb::handle exception, PyObject* type) {
  const int answer = PyObject_IsInstance(exception.ptr(), type);
  if (answer < 0) PyErr_Clear();
  return answer == 1;
}

bool IsFullDisk(nb::handle exception) {
  if (!IsInstance(exception, PyExc_OSError)) return false;
  const nb::object number = exception.attr("errno");
  if (!PyLong_Check(number.ptr())) return false;
  const int64_t error = PyLong_AsLongLong(number.ptr());
  return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

StatusCode CodeOfBuiltin(nb::handle exception) {
  if (IsFullDisk(exception)) return StatusCode::kResourceExhausted;
  const std::array<std::pair<PyObject*, StatusCode>, 9> codes = {{
      {PyExc_KeyboardInterrupt, StatusCode::kCancelled},
      {PyExc_FileNotFoundError, StatusCode::kNotFound},
      {PyExc_FileExistsError, StatusCode::kAlreadyExists},
      {PyExc_PermissionError, StatusCode::kPermissionDenied},
      {PyExc_TimeoutError, StatusCode::kDeadlineExceeded},
      {PyExc_MemoryError, StatusCode::kResourceExhausted},
      {PyExc_ValueError, StatusCode::kInvalidArgument},
      {PyExc_TypeError, StatusCode::kInvalidArgument},
      {PyExc_NotImplementedError, StatusCode::kUnimplemented},
  }};
  for (const auto& [type, code] : codes) {
    if (IsInstance(exception, type)) return code;
  }
  return StatusCode::kUnavailable;
}

std::string TextOf(nb::handle exception) {
  const nb::object text = nb::steal(PyObject_Str(exception.ptr()));
  const nb::object bytes = text.is_valid()
                               ? nb::steal(PyUnicode_AsEncodedString(
                                     text.ptr(), "utf-8", "backslashreplace"))
                               : nb::object();
  if (bytes.is_valid()) return nb::borrow<nb::bytes>(bytes).c_str();
  PyErr_Clear();
  return "an exception without a text";
}

}  // namespace

Status StatusOf(nb::handle exception) {
  const std::string text = TextOf(exception);
  const nb::object errors = nb::module_::import_("holdfast.errors");
  for (const StatusCode code : kFailureCodes) {
    const nb::object type = errors.attr(ClassName(code));
    if (IsInstance(exception, type.ptr())) return Status(code, text);
  }
  const auto name = nb::cast<std::string>(exception.type().attr("__name__"));
  return Status(CodeOfBuiltin(exception), name + ": " + text);
}

PyObject* NewException(const Status& status) {
  PyObject* module = PyImport_ImportModule("holdfast.errors");
  if (module == nullptr) return nullptr;
  PyObject* type = PyObject_GetAttrString(module, ClassName(status.code()));
  Py_DECREF(module);
  if (type == nullptr) return nullptr;
  // A message may quote bytes of a damaged file, which may be invalid UTF-8.
  const std::string_view text = status.message();
  PyObject* message = PyUnicode_DecodeUTF8(
      text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace");
  PyObject* error = nullptr;
  if (message != nullptr) {
    error = PyObject_CallFunctionObjArgs(type, message, nullptr);
  }
  Py_XDECREF(message);
  Py_DECREF(type);
  return error;
}

void SetPythonError(const Status& status) {
  PyObject* error = NewException(status);
  if (error == nullptr) return;  // an error is already set
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
