// msgpack's extension types in an aggregate file, for reading and writing.
#pragma once

#include <cstdint>

namespace holdfast {

inline constexpr int8_t kExtArray = 1;
inline constexpr int8_t kExtComplex = 2;
inline constexpr int8_t kExtScalar = 3;
inline constexpr int8_t kExtTuple = 4;

}  // namespace holdfast
