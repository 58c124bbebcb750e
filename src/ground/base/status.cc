#include "holdfast/status.h"

namespace holdfast {

std::string_view StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "OK";
    case StatusCode::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case StatusCode::kNotFound:
      return "NOT_FOUND";
    case StatusCode::kAlreadyExists:
      return "ALREADY_EXISTS";
    case StatusCode::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case StatusCode::kOutOfRange:
      return "OUT_OF_RANGE";
    case StatusCode::kPermissionDenied:
      return "PERMISSION_DENIED";
    case StatusCode::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case StatusCode::kUnavailable:
      return "UNAVAILABLE";
    case StatusCode::kUnimplemented:
      return "UNIMPLEMENTED";
    case StatusCode::kCancelled:
      return "CANCELLED";
    case StatusCode::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case StatusCode::kDataLoss:
      return "DATA_LOSS";
    case StatusCode::kInternal:
      return "INTERNAL";
  }
  return "UNKNOWN";
}

Status::Status(StatusCode code, std::string message) {
  if (code == StatusCode::kOk) return;
  rep_ = std::make_shared<const Rep>(Rep{code, std::move(message)});
}

std::string Status::ToString() const {
  if (ok()) return "OK";
  return std::string(StatusCodeName(code())) + ": " + rep_->message;
}

Status Status::WithContext(std::string_view context) const {
  if (ok()) return *this;
  return Status(code(), std::string(context) + ": " + rep_->message);
}

#define HF_DEFINE_ERROR(name)                               \
  Status name##Error(std::string message) {                 \
    return Status(StatusCode::k##name, std::move(message)); \
  }
HF_DEFINE_ERROR(InvalidArgument)
HF_DEFINE_ERROR(NotFound)
HF_DEFINE_ERROR(AlreadyExists)
HF_DEFINE_ERROR(FailedPrecondition)
HF_DEFINE_ERROR(OutOfRange)
HF_DEFINE_ERROR(PermissionDenied)
HF_DEFINE_ERROR(ResourceExhausted)
HF_DEFINE_ERROR(Unavailable)
HF_DEFINE_ERROR(Unimplemented)
HF_DEFINE_ERROR(Cancelled)
HF_DEFINE_ERROR(DeadlineExceeded)
HF_DEFINE_ERROR(DataLoss)
HF_DEFINE_ERROR(Internal)
#undef HF_DEFINE_ERROR

}  // namespace holdfast
