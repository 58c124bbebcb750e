// Limits how many requests may be in flight. The limit grows by one for every
// round of good answers (as many as the limit), and is halved when the server
// asks to slow down.
//
// The limit starts at its maximum, as most servers never complain. Several
// complaints within a round halve it only once: only a request that began after
// the last halving reports something new.
// Thread-safety: one thread. Errors: none.
#pragma once

#include <algorithm>
#include <cstdint>

namespace holdfast {

class InFlightLimit {
 public:
  explicit InFlightLimit(int max) : max_(std::max(max, 1)), limit_(max_) {}

  int limit() const { return limit_; }
  // A request remembers the epoch in which it began.
  uint64_t epoch() const { return epoch_; }

  void OnAnswer() {
    if (limit_ == max_ || ++answer_count_ < limit_) return;
    answer_count_ = 0;
    ++limit_;
  }

  void OnThrottled(uint64_t epoch_at_begin) {
    if (epoch_at_begin != epoch_) return;
    ++epoch_;
    answer_count_ = 0;
    limit_ = std::max(limit_ / 2, 1);
  }

 private:
  const int max_;
  int limit_;
  int answer_count_ = 0;  // good answers since the limit last changed
  uint64_t epoch_ = 0;
};

}  // namespace holdfast
