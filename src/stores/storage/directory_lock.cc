#include "stores/storage/directory_lock.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "ground/base/status_macros.h"
#include "stores/storage/directory_ops.h"
#include "stores/storage/errno_status.h"

namespace holdfast {
namespace {

// A rival may mistake a new directory for a leftover and remove it. Make gives
// up after this has happened this many times in a row.
constexpr int kMakeAttempts = 100;

Status LockedByAnother(const std::string& path) {
  return AlreadyExistsError("another save is writing " + path);
}

}  // namespace

DirectoryLock& DirectoryLock::operator=(DirectoryLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(owner_, other.owner_);
  return *this;
}

Result<DirectoryLock> DirectoryLock::Take(const std::string& path) {
  UniqueFd fd(
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) return ErrnoStatus(errno, "lock", path);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return LockedByAnother(path);
  }
  DirectoryLock lock(std::move(fd));
  // The name may have moved to another directory between open and flock.
  HF_ASSIGN_OR_RETURN(const bool is_there, lock.IsAt(path));
  if (is_there) return lock;
  return NotFoundError("lock " + path + ": another process has just moved it");
}

Result<DirectoryLock> DirectoryLock::Make(const std::string& path) {
  for (int attempt = 0; attempt < kMakeAttempts; ++attempt) {
    const Status made = local::CreateDirectoryNew(path);
    if (attempt == 0 || made.code() != StatusCode::kAlreadyExists) {
      HF_RETURN_IF_ERROR(made);
    }
    Result<DirectoryLock> lock = Take(path);
    if (lock.ok()) {
      HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          local::ListDirectory(path));
      // A rival removed the empty directory and created its own under the same
      // name.
      if (!names.empty()) return LockedByAnother(path);
      return lock;
    }
    // A cleaner or a rival found the directory empty and unlocked, and mistook
    // it for the leftover of a dead save.
    const bool is_lost = lock.status().code() == StatusCode::kAlreadyExists ||
                         lock.status().code() == StatusCode::kNotFound;
    if (!is_lost) {
      (void)::rmdir(path.c_str());
      return lock.status();
    }
    (void)::sched_yield();
  }
  return LockedByAnother(path);
}

bool DirectoryLock::is_held() const {
  return fd_.valid() && owner_ == ::getpid();
}

Result<bool> DirectoryLock::IsAt(const std::string& path) const {
  if (!is_held()) return false;
  struct stat mine, there;
  if (::fstat(fd_.get(), &mine) != 0) return ErrnoStatus(errno, "stat", path);
  if (::lstat(path.c_str(), &there) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return false;
    return ErrnoStatus(errno, "stat", path);
  }
  // Device and inode identify the directory itself; its name may be reused.
  return mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
}

Status DirectoryLock::Remove(const std::string& path) {
  HF_ASSIGN_OR_RETURN(const bool is_there, IsAt(path));
  if (!is_there) {
    return NotFoundError("remove " + path + ": it is no longer there");
  }
  HF_RETURN_IF_ERROR(local::RemoveOpenTree(fd_.get(), path));
  Unlock();
  return Status();
}

// Unlocks explicitly: forked children share the lock, so it would outlive the
// closing of this descriptor.
void DirectoryLock::Unlock() {
  if (is_held()) (void)::flock(fd_.get(), LOCK_UN);
  fd_.Reset();
}

}  // namespace holdfast
