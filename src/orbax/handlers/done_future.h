// Makes futures of commits, and waits for them.
//
// Thread-safety: pure. Ownership: a future owns the work. Errors: the work's.
#pragma once

#include <future>
#include <system_error>
#include <utility>
#include <vector>

#include "ground/base/no_throw.h"
#include "holdfast/orbax/type_handlers.h"

namespace holdfast {

// Returns a future that is ready.
inline CommitFuture DoneFuture(Status status = {}) {
  std::promise<Status> done;
  done.set_value(std::move(status));
  return done.get_future().share();
}

// Runs `work()` on its own thread, or on this thread if the system cannot start
// one. Returns its future.
template <typename Work>
CommitFuture InBackground(Work work) {
  const auto run = [work = std::move(work)] { return CatchBadAlloc(work); };
  try {
    return std::async(std::launch::async, run).share();
  } catch (const std::system_error&) {
    return DoneFuture(run());
  }
}

// Waits for all futures, and returns the first failure.
inline Status WaitForAll(const std::vector<CommitFuture>& futures) {
  Status first;
  for (const CommitFuture& future : futures) {
    const Status status = future.get();
    if (first.ok()) first = status;
  }
  return first;
}

}  // namespace holdfast
