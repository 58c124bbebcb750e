#include "engine/references/reference_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <thread>

namespace holdfast {
namespace {

// A process that holds the lock longer is suspended, or has locked the
// directory for its own purposes.
constexpr std::chrono::seconds kWaitMax(5);
constexpr std::chrono::milliseconds kWaitStep(2);

}  // namespace

ReferenceLock::ReferenceLock(const Place& root) {
  if (!root.can_rename()) return;
  fd_ =
      UniqueFd(::open(root.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd_.valid()) return;
  const auto deadline = std::chrono::steady_clock::now() + kWaitMax;
  while (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
    const bool may_wait = errno == EINTR || errno == EWOULDBLOCK;
    if (!may_wait || std::chrono::steady_clock::now() >= deadline) {
      fd_.Reset();
      return;
    }
    std::this_thread::sleep_for(kWaitStep);
  }
}

// Unlocks explicitly. A forked child shares the lock, so closing only this
// descriptor would leave it locked.
void ReferenceLock::Unlock() {
  if (fd_.valid()) (void)::flock(fd_.get(), LOCK_UN);
  fd_.Reset();
}

}  // namespace holdfast
