// Status and Result<T>: how every fallible call of holdfast reports failure.
//
// A code says what the caller should do next; the message says
// `what: where: why (got X, want Y)`. No exception crosses a public header.
// Thread-safety: values; const methods may run concurrently.
// Ownership: a Status owns its message (shared between copies, immutable).
#pragma once

#include <cassert>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "holdfast/export.h"

namespace holdfast HOLDFAST_EXPORT {

// Values are part of the API and of `--json` output: do not renumber.
enum class StatusCode : uint8_t {
  kOk = 0,
  kInvalidArgument = 1,     // the request is wrong; change it
  kNotFound = 2,            // the named thing does not exist
  kAlreadyExists = 3,       // choose another name or ask for overwrite
  kFailedPrecondition = 4,  // another step must be done first
  kOutOfRange = 5,          // beyond the end of what exists
  kPermissionDenied = 6,    // the system refused access
  kResourceExhausted = 7,   // disk, quota or memory is full
  kUnavailable = 8,         // retry the same call later
  kUnimplemented = 9,       // valid, but not supported here
  kCancelled = 10,          // the caller cancelled
  kDeadlineExceeded = 11,   // a wait took too long
  kDataLoss = 12,           // stored bytes are damaged
  kInternal = 13,           // a bug in holdfast
};

// Returns the code's name: "DATA_LOSS" for kDataLoss, and so on.
std::string_view StatusCodeName(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(StatusCode code, std::string message);

  bool ok() const { return rep_ == nullptr; }
  StatusCode code() const { return rep_ ? rep_->code : StatusCode::kOk; }
  // Empty when ok.
  std::string_view message() const {
    return rep_ ? std::string_view(rep_->message) : std::string_view();
  }
  // Returns "OK", or text such as "DATA_LOSS: message".
  std::string ToString() const;

  // Returns a status with the same code, and with `context` and ": " before the
  // message. Ok stays ok. Each layer adds at most one context.
  Status WithContext(std::string_view context) const;

 private:
  struct Rep {
    StatusCode code;
    std::string message;
  };
  std::shared_ptr<const Rep> rep_;
};

Status InvalidArgumentError(std::string message);
Status NotFoundError(std::string message);
Status AlreadyExistsError(std::string message);
Status FailedPreconditionError(std::string message);
Status OutOfRangeError(std::string message);
Status PermissionDeniedError(std::string message);
Status ResourceExhaustedError(std::string message);
Status UnavailableError(std::string message);
Status UnimplementedError(std::string message);
Status CancelledError(std::string message);
Status DeadlineExceededError(std::string message);
Status DataLossError(std::string message);
Status InternalError(std::string message);

// Either a value, or a Status (never ok) that says why there is no value.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {  // NOLINT
    assert(!status_.ok());
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  // REQUIRES: ok().
  T& value() & {
    assert(ok());
    return *value_;
  }
  const T& value() const& {
    assert(ok());
    return *value_;
  }
  T&& value() && {
    assert(ok());
    return *std::move(value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace holdfast
