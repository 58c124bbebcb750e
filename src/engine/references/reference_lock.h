// ReferenceLock: whoever lets steps of a root go, and whoever commits a step
// that refers to another, take turns.
//
// Held from the question whether anything refers to a step until it has gone or
// was replaced; and from the last look at a base until the delta, or the view,
// made from it is committed. So none of the two can come between the question
// and the deed of the other. Nothing slow happens meanwhile.
// In object stores, and on file systems without locks, it does nothing, and
// nobody waits longer than five seconds: a guard against what happens in
// moments must not stop a run.
// Thread-safety: one owner; another thread of the process waits like another
// process. Not to be taken twice. Ownership: the lock.
// Errors: none; a root that is not there is not locked.
#pragma once

#include "stores/place/place.h"
#include "stores/storage/unique_fd.h"

namespace holdfast {

class ReferenceLock {
 public:
  // Holds nothing.
  ReferenceLock() = default;
  // Waits a while until nobody else holds the lock of `root`.
  explicit ReferenceLock(const Place& root);
  ReferenceLock(ReferenceLock&&) noexcept = default;
  ReferenceLock& operator=(ReferenceLock&&) noexcept = default;
  ~ReferenceLock() { Unlock(); }

  void Unlock();

 private:
  UniqueFd fd_;
};

}  // namespace holdfast
