#include "stores/storage/errno_status.h"

#include <cassert>
#include <cerrno>
#include <string>
#include <system_error>

namespace holdfast {

StatusCode CodeFromErrno(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return StatusCode::kNotFound;
    case EEXIST:
      return StatusCode::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      return StatusCode::kResourceExhausted;
    case EIO:
    case EUCLEAN:
    case EBADMSG:
      return StatusCode::kDataLoss;
    case ELOOP:
    case EXDEV:
    case EINVAL:
    case ENAMETOOLONG:
      return StatusCode::kInvalidArgument;
    case EISDIR:
    case ENOTEMPTY:
    case EBUSY:
    case ETXTBSY:
      return StatusCode::kFailedPrecondition;
    case ENOSYS:
    case EOPNOTSUPP:
      return StatusCode::kUnimplemented;
    default:
      return StatusCode::kUnavailable;
  }
}

Status ErrnoStatus(int error, std::string_view what, std::string_view path) {
  assert(error != 0);
  std::string message(what);
  // std::strerror is not used, because threads share its buffer.
  message.append(" ").append(path).append(": ").append(
      std::generic_category().message(error));
  return Status(CodeFromErrno(error), std::move(message));
}

}  // namespace holdfast
