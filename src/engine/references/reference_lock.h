// ReferenceLock: makes removals of steps in a root, and commits of steps that
// refer to others, take turns.
//
// A remover holds it from the check that nothing refers to a step until the
// step is removed or replaced; a saver, from the last check of a base until the
// delta or view made from it is committed. So neither can interfere between the
// other's check and action. No slow work is done while it is held. It does
// nothing in object stores and on file systems without locks, and nobody waits
// longer than five seconds: it guards against a short race, which must not stop
// a run.
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
  // Waits a limited time until nobody else holds the lock of `root`.
  explicit ReferenceLock(const Place& root);
  ReferenceLock(ReferenceLock&&) noexcept = default;
  ReferenceLock& operator=(ReferenceLock&&) noexcept = default;
  ~ReferenceLock() { Unlock(); }

  void Unlock();

 private:
  UniqueFd fd_;
};

}  // namespace holdfast
