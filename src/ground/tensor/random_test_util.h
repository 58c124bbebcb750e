// Random numbers for the tests of this folder.
// Thread-safety: one generator per thread. Tests only.
#pragma once

#include <cstdint>
#include <random>

namespace holdfast {

// Returns a number in [low, high].
inline int64_t RandomInt(std::mt19937& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

}  // namespace holdfast
