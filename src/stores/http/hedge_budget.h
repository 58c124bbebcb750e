// Limits how many bytes hedging may fetch twice: 2 % of the bytes requested,
// plus a few requests' bytes. The extra bytes allow hedges in a client that has
// requested little, and for requests that stall while another request's hedge
// has stalled, too.
//
// All bytes of a hedge's request count until the answer has arrived. From then
// on, only the bytes that the slower attempt had received count: zero if it had
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
