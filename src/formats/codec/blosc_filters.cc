#include "formats/codec/blosc_filters.h"

#include <bit>
#include <cstdint>
#include <cstring>

namespace holdfast {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr size_t kLanes = 16;
using Vector = uint8_t __attribute__((vector_size(kLanes)));
using Words = uint64_t __attribute__((vector_size(kLanes)));

Vector LowInterleaved(Vector a, Vector b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21,
                                 6, 22, 7, 23);
}

Vector HighInterleaved(Vector a, Vector b) {
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13,
                                 29, 14, 30, 15, 31);
}

// Moves each byte of all the vectors from index i to the index that results
// from rotating the bits of i left `kRounds` times. So 4 rounds turn 16 items
// of kCount bytes (index: item, byte) into kCount vectors, one for each byte
// (index: byte, item), because 16 lanes need 4 bits. log2(kCount) rounds
// restore the items. The loops are unrolled, so that the vectors stay in
// registers: a third fewer instructions.
template <int kRounds, size_t kCount>
[[gnu::always_inline]] inline void RotateIndexes(Vector (&v)[kCount]) {
  if constexpr (kRounds > 0) {
    Vector next[kCount];
#pragma GCC unroll 8
    for (size_t i = 0; i < kCount / 2; ++i) {
      next[2 * i] = LowInterleaved(v[i], v[i + kCount / 2]);
      next[2 * i + 1] = HighInterleaved(v[i], v[i + kCount / 2]);
    }
    RotateIndexes<kRounds - 1>(next);
#pragma GCC unroll 8
    for (size_t i = 0; i < kCount; ++i) v[i] = next[i];
  }
}

// Shuffles the items of `in` from `first` on, one at a time. They are the rest
// that does not fill a vector.
void ShuffleItems(size_t item_bytes, size_t first, size_t item_count,
                  const char* in, char* out) {
  for (size_t i = first; i < item_count; ++i) {
    for (size_t byte = 0; byte < item_bytes; ++byte) {
      out[byte * item_count + i] = in[i * item_bytes + byte];
    }
  }
}

void JoinItems(size_t item_bytes, size_t first, size_t item_count,
               const char* const* planes, char* out) {
  for (size_t i = first; i < item_count; ++i) {
    for (size_t byte = 0; byte < item_bytes; ++byte) {
      out[i * item_bytes + byte] = planes[byte][i];
    }
  }
}

template <size_t kItemBytes>
void ShuffleFast(size_t item_count, const char* in, char* out) {
  size_t i = 0;
  for (; i + kLanes <= item_count; i += kLanes) {
    Vector v[kItemBytes];
    std::memcpy(v, in + i * kItemBytes, sizeof v);
    RotateIndexes<4>(v);
    for (size_t byte = 0; byte < kItemBytes; ++byte) {
      std::memcpy(out + byte * item_count + i, &v[byte], kLanes);
    }
  }
  ShuffleItems(kItemBytes, i, item_count, in, out);
}

template <size_t kItemBytes>
void JoinFast(size_t item_count, const char* const* planes, char* out) {
  constexpr int kRounds = std::countr_zero(kItemBytes);
  size_t i = 0;
  for (; i + kLanes <= item_count; i += kLanes) {
    Vector v[kItemBytes];
    for (size_t byte = 0; byte < kItemBytes; ++byte) {
      std::memcpy(&v[byte], planes[byte] + i, kLanes);
    }
    RotateIndexes<kRounds>(v);
    std::memcpy(out + i * kItemBytes, v, sizeof v);
  }
  JoinItems(kItemBytes, i, item_count, planes, out);
}

// Swaps bit j of byte i with bit i of byte j, in each word.
template <typename T>
T TransposedBits(T x) {
  T t = (x ^ (x >> 7)) & 0x00AA00AA00AA00AAull;
  x ^= t ^ (t << 7);
  t = (x ^ (x >> 14)) & 0x0000CCCC0000CCCCull;
  x ^= t ^ (t << 14);
  t = (x ^ (x >> 28)) & 0x00000000F0F0F0F0ull;
  return x ^ t ^ (t << 28);
}

void TransposeBits(Vector (&v)[8]) {
  for (Vector& bytes : v) {
    bytes = reinterpret_cast<Vector>(
        TransposedBits(reinterpret_cast<Words>(bytes)));
  }
}

// Splits one byte of each of `byte_count` items (a multiple of 8) into 8 rows
// of one bit each.
void SplitBits(size_t byte_count, const char* in, char* out) {
  const size_t row_bytes = byte_count / 8;
  size_t i = 0;  // within a row
  for (; i + kLanes <= row_bytes; i += kLanes) {
    Vector v[8];
    std::memcpy(v, in + i * 8, sizeof v);
    TransposeBits(v);
    RotateIndexes<4>(v);
    for (size_t bit = 0; bit < 8; ++bit) {
      std::memcpy(out + bit * row_bytes + i, &v[bit], kLanes);
    }
  }
  for (; i < row_bytes; ++i) {
    uint64_t word = 0;
    std::memcpy(&word, in + i * 8, sizeof word);
    word = TransposedBits(word);
    for (size_t bit = 0; bit < 8; ++bit) {
      out[bit * row_bytes + i] = static_cast<char>(word >> (8 * bit));
    }
  }
}

void JoinBits(size_t byte_count, const char* in, char* out) {
  const size_t row_bytes = byte_count / 8;
  size_t i = 0;
  for (; i + kLanes <= row_bytes; i += kLanes) {
    Vector v[8];
    for (size_t bit = 0; bit < 8; ++bit) {
      std::memcpy(&v[bit], in + bit * row_bytes + i, kLanes);
    }
    RotateIndexes<3>(v);
    TransposeBits(v);
    std::memcpy(out + i * 8, v, sizeof v);
  }
  for (; i < row_bytes; ++i) {
    uint64_t word = 0;
    for (size_t bit = 0; bit < 8; ++bit) {
      const auto byte = static_cast<uint8_t>(in[bit * row_bytes + i]);
      word |= uint64_t{byte} << (8 * bit);
    }
    word = TransposedBits(word);
    std::memcpy(out + i * 8, &word, sizeof word);
  }
}

void CopyRest(size_t done, std::string_view in, char* out) {
  if (done < in.size()) {
    std::memcpy(out + done, in.data() + done, in.size() - done);
  }
}

}  // namespace

void ShuffleBytes(size_t item_bytes, std::string_view in, char* out) {
  const size_t item_count = in.size() / item_bytes;
  switch (item_bytes) {
    case 2:
      ShuffleFast<2>(item_count, in.data(), out);
      break;
    case 4:
      ShuffleFast<4>(item_count, in.data(), out);
      break;
    case 8:
      ShuffleFast<8>(item_count, in.data(), out);
      break;
    case 16:
      ShuffleFast<16>(item_count, in.data(), out);
      break;
    default:
      ShuffleItems(item_bytes, 0, item_count, in.data(), out);
  }
  CopyRest(item_count * item_bytes, in, out);
}

void JoinPlanes(size_t item_bytes, size_t item_count, const char* const* planes,
                char* out) {
  switch (item_bytes) {
    case 2:
      return JoinFast<2>(item_count, planes, out);
    case 4:
      return JoinFast<4>(item_count, planes, out);
    case 8:
      return JoinFast<8>(item_count, planes, out);
    case 16:
      return JoinFast<16>(item_count, planes, out);
    default:
      return JoinItems(item_bytes, 0, item_count, planes, out);
  }
}

void UnshuffleBytes(size_t item_bytes, std::string_view in, char* out) {
  const size_t item_count = in.size() / item_bytes;
  const char* planes[kBloscItemBytesMax];
  for (size_t byte = 0; byte < item_bytes; ++byte) {
    planes[byte] = in.data() + byte * item_count;
  }
  JoinPlanes(item_bytes, item_count, planes, out);
  CopyRest(item_count * item_bytes, in, out);
}

void ShuffleBits(size_t item_bytes, std::string_view in, char* out,
                 char* scratch) {
  const size_t item_count = in.size() / item_bytes;
  // c-blosc does not filter a block whose item count is not a multiple of 8.
  if (item_count % 8 != 0) return CopyRest(0, in, out);
  const char* bytes = in.data();
  if (item_bytes > 1) {
    ShuffleBytes(item_bytes, in, scratch);
    bytes = scratch;
  }
  for (size_t byte = 0; byte < item_bytes; ++byte) {
    SplitBits(item_count, bytes + byte * item_count, out + byte * item_count);
  }
  CopyRest(item_count * item_bytes, in, out);
}

void UnshuffleBits(size_t item_bytes, std::string_view in, char* out,
                   char* scratch) {
  const size_t item_count = in.size() / item_bytes;
  if (item_count % 8 != 0) return CopyRest(0, in, out);
  char* const bytes = item_bytes > 1 ? scratch : out;
  for (size_t byte = 0; byte < item_bytes; ++byte) {
    JoinBits(item_count, in.data() + byte * item_count,
             bytes + byte * item_count);
  }
  const size_t done = item_count * item_bytes;
  if (item_bytes > 1) UnshuffleBytes(item_bytes, {bytes, done}, out);
  CopyRest(done, in, out);
}

}  // namespace holdfast
