// Converts errno values to Status, so that every system call of holdfast
// reports the same failure in the same form: "<what> <path>: <strerror>".
//
// Thread-safety: pure functions. Units: none.
#pragma once

#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

// Returns the code that says what the caller should do about `error`:
//   ENOENT, ENOTDIR            NotFound
//   EEXIST                     AlreadyExists
//   EACCES, EPERM, EROFS       PermissionDenied
//   ENOSPC, EDQUOT, EFBIG, ENOMEM, EMFILE, ENFILE  ResourceExhausted
//   EIO, EUCLEAN, EBADMSG      DataLoss: the device lost the bytes; after a
//                              failed fsync a retry would falsely succeed,
//                              so not Unavailable
//   ELOOP, EXDEV, EINVAL, ENAMETOOLONG             InvalidArgument
//   EISDIR, ENOTEMPTY, EBUSY, ETXTBSY              FailedPrecondition
//   EINTR, EAGAIN, ESTALE, ETIMEDOUT, network      Unavailable
//   ENOSYS, EOPNOTSUPP         Unimplemented
//   others                     Unavailable
StatusCode CodeFromErrno(int error);

// Returns the Status for `error`. REQUIRES: error != 0.
Status ErrnoStatus(int error, std::string_view what, std::string_view path);

}  // namespace holdfast
