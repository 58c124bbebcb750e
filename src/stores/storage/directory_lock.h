// DirectoryLock: the right to rename, empty or remove a directory.
//
// A caller that renames, empties or removes a directory that others know by
// name takes the directory's lock first, and holds it to the end. So the name
// of a locked directory keeps leading to that directory: between a check and a
// removal, a rival cannot move it away and put another in its place. Readers
// take no locks. The lock belongs to the directory, not to its name: a rename
// does not release it, but the death of the process does.
// It gives no protection on file systems without locks.
// Thread-safety: one owner. Ownership: the lock; never the directory.
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
  // Holds nothing.
  DirectoryLock() = default;
  DirectoryLock(DirectoryLock&&) noexcept = default;
  DirectoryLock& operator=(DirectoryLock&& other) noexcept;
  ~DirectoryLock() { Unlock(); }

  // Locks the directory at `path`, and checks that the name still leads to it.
  static Result<DirectoryLock> Take(const std::string& path);
  // Makes a new, empty directory and locks it. AlreadyExists when anything
  // exists at `path`.
  static Result<DirectoryLock> Make(const std::string& path);

  // Also false in a forked child of the process that took the lock.
  bool is_held() const;
  // Whether `path` leads to the locked directory; false when nothing is held.
  Result<bool> IsAt(const std::string& path) const;
  // Removes the directory, which is at `path`, and unlocks it. NotFound when
  // another directory is at `path`; that one is left alone.
  Status Remove(const std::string& path);
  void Unlock();

 private:
  explicit DirectoryLock(UniqueFd fd)
      : fd_(std::move(fd)), owner_(::getpid()) {}

  UniqueFd fd_;
  pid_t owner_ = 0;
};

}  // namespace holdfast
