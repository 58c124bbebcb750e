// XXH64 with seed 0, streamed: the content checksum of zstd frames (their last
// four bytes are its low 32 bits). Source: the xxHash specification 0.1.1,
// section "XXH64 algorithm".
//
// Thread-safety: one thread an object. Units: bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace holdfast {

class Xxh64 {
 public:
  Xxh64();
  void Update(std::string_view data);
  // The hash of everything so far; more may follow.
  uint64_t Digest() const;

 private:
  static constexpr size_t kStripeBytes = 32;

  std::array<uint64_t, 4> lanes_;
  uint64_t total_bytes_ = 0;
  char pending_[kStripeBytes];  // the first total_bytes_ % 32 are in use
};

}  // namespace holdfast
