// FreshSecret: keys or a token that expire and are renewed in time.
//
// Some minutes before a secret expires, one thread fetches a new one while
// other threads continue with the old one. When hardly any time is left, all
// threads wait.
// Thread-safety: any thread. Units: nanoseconds since 1970.
// Errors: those of the fetch, unless the current secret is still good.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "holdfast/status.h"

namespace holdfast {

using UnixClock = std::function<int64_t()>;  // nanoseconds since 1970

// `Secret` must have a member `expires_ns`; 0 means never.
template <typename Secret>
class FreshSecret {
 public:
  using Pointer = std::shared_ptr<const Secret>;
  using Fetch = std::function<Result<Secret>()>;
  struct Times {
    int64_t renew_before_ns = 0;  // one thread fetches a new secret
    int64_t wait_before_ns = 0;   // all threads wait for it
    int64_t retry_every_ns = 0;   // after an early renewal has failed
  };

  // Only one `fetch` runs at a time.
  FreshSecret(Fetch fetch, UnixClock clock, const Times& times)
      : fetch_(std::move(fetch)), clock_(std::move(clock)), times_(times) {}

  // Returns the secret, fetching it first if needed or if it expires soon. May
  // wait for the network.
  Result<Pointer> Get() {
    const Pointer current = Current();
    if (current != nullptr) {
      const int64_t left_ns = current->expires_ns - clock_();
      if (current->expires_ns == 0 || left_ns > times_.renew_before_ns) {
        return current;
      }
      if (left_ns > times_.wait_before_ns) return RenewEarly(current);
    }
    return Renew(current);
  }

  // Returns the secret that was last fetched; null before the first. Never
  // waits.
  Pointer Current() const {
    const std::lock_guard lock(mutex_);
    return current_;
  }

  // Fetches a new secret because the server says that `stale` is no longer
  // valid, unless another caller has done so already.
  Result<Pointer> Renew(const Pointer& stale) {
    const std::lock_guard lock(fetch_mutex_);
    return FetchAnew(stale);
  }

 private:
  Result<Pointer> RenewEarly(const Pointer& current) {
    const std::unique_lock lock(fetch_mutex_, std::try_to_lock);
    // Another thread is fetching, or has just failed, and the current secret
    // still works.
    if (!lock.owns_lock() || clock_() < next_try_ns_) return current;
    next_try_ns_ = clock_() + times_.retry_every_ns;
    const auto renewed = FetchAnew(current);
    // If the renewal fails, the current secret is still good.
    return renewed.ok() ? renewed : current;
  }

  // Fetches a new secret, unless `stale` has been replaced already. REQUIRES:
  // fetch_mutex_ is held.
  Result<Pointer> FetchAnew(const Pointer& stale) {
    const Pointer current = Current();
    // Another thread has renewed the secret while this thread waited for the
    // lock.
    if (current != nullptr && current != stale) return current;
    auto fetched = fetch_();
    if (!fetched.ok()) return fetched.status();
    auto fresh = std::make_shared<const Secret>(*std::move(fetched));
    const std::lock_guard lock(mutex_);
    current_ = fresh;
    return Pointer(std::move(fresh));
  }

  const Fetch fetch_;
  const UnixClock clock_;
  const Times times_;
  std::mutex fetch_mutex_;   // one fetch at a time
  int64_t next_try_ns_ = 0;  // for early renewal; guarded by fetch_mutex_
  mutable std::mutex mutex_;
  Pointer current_;  // guarded by mutex_
};

}  // namespace holdfast
