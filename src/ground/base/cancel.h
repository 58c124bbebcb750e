// CancelToken: tells running work to stop soon. Long loops check it once per
// chunk.
// Thread-safety: any thread. Ownership: borrows the caller's flag, if given.
#pragma once

#include <atomic>

#include "holdfast/status.h"

namespace holdfast {

class CancelToken {
 public:
  // `caller_flag` may be null; when it becomes true the token is cancelled.
  explicit CancelToken(const std::atomic<bool>* caller_flag = nullptr)
      : caller_flag_(caller_flag) {}

  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const {
    return cancelled_.load(std::memory_order_relaxed) ||
           (caller_flag_ != nullptr &&
            caller_flag_->load(std::memory_order_relaxed));
  }
  // Returns Cancelled once the token is cancelled, otherwise ok.
  Status Check() const {
    return cancelled() ? CancelledError("the operation was cancelled")
                       : Status();
  }

 private:
  const std::atomic<bool>* caller_flag_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace holdfast
