// How many bytes hedging may fetch twice: 2 % of the bytes requested, plus a
// few requests: a client that has requested little needs these, and so do
// requests that stall while the hedge of another has stalled.
//
// A hedge counts with all bytes of its request until the answer has arrived,
// and then with the bytes that the slower attempt had received: zero if it had
// stalled.
// Thread-safety: one thread. Units: bytes.
#pragma once

#include <cstdint>

namespace holdfast {

class HedgeBudget {
 public:
  static constexpr uint64_t kParts = 50;  // the allowed part is 1 / kParts
  static constexpr uint64_t kRequestsMore = 4;

  void OnAsked(uint64_t byte_count) { asked_bytes_ += byte_count; }
  bool MayHedge(uint64_t byte_count) const {
    return hedged_bytes_ + byte_count <=
           asked_bytes_ / kParts + kRequestsMore * byte_count;
  }
  void OnHedge(uint64_t byte_count) { hedged_bytes_ += byte_count; }
  // `wasted_bytes` of the bytes passed to OnHedge were received twice.
  void OnAnswered(uint64_t byte_count, uint64_t wasted_bytes) {
    hedged_bytes_ += wasted_bytes;
    hedged_bytes_ -= byte_count;
  }

 private:
  uint64_t asked_bytes_ = 0;
  uint64_t hedged_bytes_ = 0;
};

}  // namespace holdfast
