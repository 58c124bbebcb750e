// DirectoryLock: the right to rename, empty or remove a directory.
//
// A caller that renames, empties or removes a directory that others know by
// name takes the directory's lock first, and holds it until it is done. The
// name of a locked directory therefore keeps leading to that directory: a rival
// cannot move it away and put another directory in its place between a check
// and a removal. Readers take no locks. The lock belongs to the directory, not
// to its name. A rename does not release it, but the death of the process does.
// The lock gives no protection on file systems without locks.
// Thread-safety: one owner. Ownership: owns the lock, never the directory.
// Errors: AlreadyExists (the lock is held elsewhere, in this process or
// another), NotFound (no such directory, or it was just moved), those of
// errno_status.h.
#pragma once

#include <sys/types.h>

#include <string>

#include "holdfast/status.h"
#include "stores/storage/unique_fd.h"

namespace holdfast {

class DirectoryLock {
 public:
  // Makes a lock that holds nothing.
  DirectoryLock() = default;
  DirectoryLock(DirectoryLock&&) noexcept = default;
  DirectoryLock& operator=(DirectoryLock&& other) noexcept;
  ~DirectoryLock() { Unlock(); }

  // Locks the directory at `path`, and checks that the name still leads to it.
  static Result<DirectoryLock> Take(const std::string& path);
  // Makes a new, empty directory and locks it. AlreadyExists if anything exists
  // at `path`.
  static Result<DirectoryLock> Make(const std::string& path);

  // Whether the lock is held. False in a forked child of the process that took
  // the lock.
  bool is_held() const;
  // Returns whether `path` leads to the locked directory; false if nothing is
  // held.
  Result<bool> IsAt(const std::string& path) const;
  // Removes the locked directory, which is at `path`, and unlocks it. NotFound
  // if another directory is at `path`, which is then left alone.
  Status Remove(const std::string& path);
  void Unlock();

 private:
  explicit DirectoryLock(UniqueFd fd)
      : fd_(std::move(fd)), owner_(::getpid()) {}

  UniqueFd fd_;
  pid_t owner_ = 0;
};

}  // namespace holdfast
