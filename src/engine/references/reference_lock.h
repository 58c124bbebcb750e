// ReferenceLock: keeps removals of steps in a root from running at the same
// time as commits of steps that refer to other steps there.
//
// A remover holds it from the check that nothing refers to a step until the
// step is removed or replaced; a saver, from the last check of a base until the
// delta or view made from it is committed. So neither can come between the
// other's check and its action. No slow work is done while it is held. It does
// nothing in object stores and on file systems without locks, and nobody waits
// for it longer than five seconds: it guards against a short race, and must not
// stop a run.
// Thread-safety: one owner; another thread of the process waits like another
// process. May not be taken twice. Ownership: the lock.
// Errors: none; a missing root is not locked.
#pragma once

#include "stores/place/place.h"
#include "stores/storage/unique_fd.h"

namespace holdfast {

class ReferenceLock {
 public:
  // Holds no lock.
  ReferenceLock() = default;
  // Takes the lock of `root`. Waits a limited time for another holder to
  // release it.
  explicit ReferenceLock(const Place& root);
  ReferenceLock(ReferenceLock&&) noexcept = default;
  ReferenceLock& operator=(ReferenceLock&&) noexcept = default;
  ~ReferenceLock() { Unlock(); }

  void Unlock();

 private:
  UniqueFd fd_;
};

}  // namespace holdfast
