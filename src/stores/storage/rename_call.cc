#include "stores/storage/rename_call.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "stores/storage/unique_fd.h"

namespace holdfast {
namespace {

bool MayLackLinks(int error) {
  return error == EPERM || error == EMLINK || error == ENOSYS ||
         error == EOPNOTSUPP || error == EXDEV;
}

// Reserves the name `target` with an empty file, which the rename then
// replaces.
int RenameOverOwnFile(int directory, const char* source, const char* target) {
  {
    const UniqueFd taken(::openat(
        directory, target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!taken.valid()) return errno;
  }
  if (::renameat(directory, source, directory, target) == 0) return 0;
  const int error = errno;
  (void)::unlinkat(directory, target, 0);
  return error;
}

int RenameFileNew(int directory, const char* source, const char* target) {
  if (::linkat(directory, source, directory, target, 0) == 0) {
    return ::unlinkat(directory, source, 0) == 0 ? 0 : errno;
  }
  return MayLackLinks(errno) ? RenameOverOwnFile(directory, source, target)
                             : errno;
}

int RenameDirectoryNew(int directory, const char* source, const char* target) {
  struct stat info;
  if (::fstatat(directory, target, &info, AT_SYMLINK_NOFOLLOW) == 0) {
    return EEXIST;
  }
  if (errno != ENOENT) return errno;
  if (::renameat(directory, source, directory, target) == 0) return 0;
  // Another process created something between the two calls.
  return errno == ENOTEMPTY || errno == ENOTDIR ? EEXIST : errno;
}

}  // namespace

int RenameWithFlags(int directory, const char* source, const char* target,
                    unsigned flags) {
#ifdef __GLIBC__  // crash tests intercept this call
  return ::renameat2(directory, source, directory, target, flags);
#else
  return static_cast<int>(
      ::syscall(SYS_renameat2, directory, source, directory, target, flags));
#endif
}

bool MayLackRenameFlags(int error) {
  // Some seccomp filters return EPERM for calls that they do not allow.
  return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP ||
         error == EPERM;
}

int RenameNew(int directory, const char* source, const char* target) {
  if (RenameWithFlags(directory, source, target, kRenameNoReplace) == 0) {
    return 0;
  }
  if (!MayLackRenameFlags(errno)) return errno;
  struct stat info;
  if (::fstatat(directory, source, &info, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno;
  }
  return S_ISDIR(info.st_mode) ? RenameDirectoryNew(directory, source, target)
                               : RenameFileNew(directory, source, target);
}

}  // namespace holdfast
