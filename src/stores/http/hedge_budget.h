// How many bytes may come a second time: 2 % of what was asked for, and a few
// requests more: a client that has asked for little needs them, and so do
// requests that stall while the hedge of another has stalled.
//
// A hedge counts as all of its request until the answer is there, and then as
// what the slower attempt had received: nothing of one that had stalled.
// Thread-safety: one thread. Units: bytes.
#pragma once

#include <cstdint>

namespace holdfast {

class HedgeBudget {
 public:
  static constexpr uint64_t kParts = 50;  // one of so many
  static constexpr uint64_t kRequestsMore = 4;

  void OnAsked(uint64_t byte_count) { asked_bytes_ += byte_count; }
  bool MayHedge(uint64_t byte_count) const {
    return hedged_bytes_ + byte_count <=
           asked_bytes_ / kParts + kRequestsMore * byte_count;
  }
  void OnHedge(uint64_t byte_count) { hedged_bytes_ += byte_count; }
  // `wasted_bytes` of what OnHedge was told came twice.
  void OnAnswered(uint64_t byte_count, uint64_t wasted_bytes) {
    hedged_bytes_ += wasted_bytes;
    hedged_bytes_ -= byte_count;
  }

 private:
  uint64_t asked_bytes_ = 0;
  uint64_t hedged_bytes_ = 0;
};

}  // namespace holdfast
