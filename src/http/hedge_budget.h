// How many bytes may be asked for a second time: 2 % of what was asked for, and
// one request more, which a client that has asked for little needs.
//
// Thread-safety: one thread. Units: bytes.
#pragma once

#include <cstdint>

namespace holdfast {

class HedgeBudget {
 public:
  static constexpr uint64_t kParts = 50;  // one of so many

  void OnAsked(uint64_t byte_count) { asked_bytes_ += byte_count; }
  void OnHedge(uint64_t byte_count) {
    hedged_bytes_ += byte_count;
    has_hedged_ = true;
  }
  bool MayHedge(uint64_t byte_count) const {
    return !has_hedged_ || hedged_bytes_ + byte_count <= asked_bytes_ / kParts;
  }

 private:
  uint64_t asked_bytes_ = 0;
  uint64_t hedged_bytes_ = 0;
  bool has_hedged_ = false;
};

}  // namespace holdfast
