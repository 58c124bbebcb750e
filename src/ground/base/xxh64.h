// XXH64 with seed 0, streamed: the hash with which holdfast compares contents
// where no attack is expected (recipes, listings, chunks of deltas), and the
// content checksum of zstd frames (their last four bytes are its low 32 bits).
// Source: libxxhash, of which only this header is compiled.
//
// Thread-safety: one thread per object. Units: bytes. Errors: none.
#pragma once

#define XXH_INLINE_ALL
#define XXH_NO_XXH3
#include <xxhash.h>

#include <cstdint>
#include <string_view>

namespace holdfast {

class Xxh64 {
 public:
  Xxh64() { XXH64_reset(&state_, 0); }
  void Update(std::string_view data) {
    XXH64_update(&state_, data.data(), data.size());
  }
  // Returns the hash of everything so far; more data may follow.
  uint64_t Digest() const { return XXH64_digest(&state_); }

 private:
  XXH64_state_t state_;
};

}  // namespace holdfast
