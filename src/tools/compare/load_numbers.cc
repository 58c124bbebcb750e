#include "tools/compare/load_numbers.h"

#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#include <limits>

#include "ground/tensor/float_convert.h"
#include "ground/tensor/float_format.h"

namespace holdfast {
namespace {

static_assert(std::numeric_limits<long double>::digits >= 64);

template <typename Stored, typename Fn>
inline void LoadEach(const char* elements, size_t count, double* numbers,
                     Fn&& value_of) {
  for (size_t i = 0; i < count; ++i) {
    Stored stored;
    std::memcpy(&stored, elements + i * sizeof(Stored), sizeof(Stored));
    numbers[i] = value_of(stored);
  }
}

template <typename Stored>
void LoadPlain(const char* elements, size_t count, double* numbers) {
  LoadEach<Stored>(elements, count, numbers,
                   [](Stored stored) { return static_cast<double>(stored); });
}

using FloatQuad = float __attribute__((vector_size(16)));
using DoubleQuad = double __attribute__((vector_size(32)));
using HalfQuad = uint16_t __attribute__((vector_size(8)));
using WordQuad = uint32_t __attribute__((vector_size(16)));

// Converts four numbers at a time, because compilers do not vectorize the plain
// loop.
void LoadFloats(const char* elements, size_t count, double* numbers) {
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    FloatQuad floats;
    std::memcpy(&floats, elements + i * sizeof(float), sizeof floats);
    const DoubleQuad doubles = __builtin_convertvector(floats, DoubleQuad);
    std::memcpy(numbers + i, &doubles, sizeof doubles);
  }
  LoadPlain<float>(elements + i * sizeof(float), count - i, numbers + i);
}

void LoadBfloat16s(const char* elements, size_t count, double* numbers) {
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    HalfQuad halves;
    std::memcpy(&halves, elements + i * sizeof(uint16_t), sizeof halves);
    const WordQuad words = __builtin_convertvector(halves, WordQuad) << 16;
    FloatQuad floats;
    std::memcpy(&floats, &words, sizeof floats);
    const DoubleQuad doubles = __builtin_convertvector(floats, DoubleQuad);
    std::memcpy(numbers + i, &doubles, sizeof doubles);
  }
  LoadEach<uint16_t>(elements + i * sizeof(uint16_t), count - i, numbers + i,
                     [](uint16_t stored) {
                       return std::bit_cast<float>(uint32_t{stored} << 16);
                     });
}

double ValueOfByte(DType dtype, unsigned bits) {
  if (DTypeKindOf(dtype) == DTypeKind::kFloat) {
    return FloatBitsToDouble(dtype, bits);
  }
  if (dtype == DType::kBool) return bits != 0;
  const int width = DTypeBits(dtype);
  const int low = static_cast<int>(bits) & ((1 << width) - 1);
  const bool is_signed = DTypeKindOf(dtype) == DTypeKind::kSigned;
  const int sign_bit = is_signed ? 1 << (width - 1) : 0;
  return (low ^ sign_bit) - sign_bit;
}

using ByteTable = std::array<double, 256>;

// Returns the values of all 256 bit patterns of a one-byte dtype. The tables of
// other dtypes are all zeros.
const ByteTable& TableOf(DType dtype) {
  static const auto* const tables = [] {
    auto* made = new std::array<ByteTable, kDTypeCount>{};
    for (int d = 0; d < kDTypeCount; ++d) {
      if (DTypeBytes(static_cast<DType>(d)) > 1) continue;
      for (unsigned bits = 0; bits < 256; ++bits) {
        (*made)[d][bits] = ValueOfByte(static_cast<DType>(d), bits);
      }
    }
    return made;
  }();
  return (*tables)[static_cast<size_t>(dtype)];
}

template <typename Int>
void LoadLong(const char* elements, size_t count, long double* numbers) {
  for (size_t i = 0; i < count; ++i) {
    Int stored;
    std::memcpy(&stored, elements + i * sizeof(Int), sizeof(Int));
    numbers[i] = static_cast<long double>(stored);
  }
}

}  // namespace

bool FitsDouble(DType dtype) {
  return dtype != DType::kInt64 && dtype != DType::kUint64;
}

int PartsOf(DType dtype) {
  return DTypeKindOf(dtype) == DTypeKind::kComplex ? 2 : 1;
}

void LoadDoubles(DType dtype, const char* elements, size_t count,
                 double* numbers) {
  assert(FitsDouble(dtype));
  switch (dtype) {
    case DType::kInt16:
      return LoadPlain<int16_t>(elements, count, numbers);
    case DType::kInt32:
      return LoadPlain<int32_t>(elements, count, numbers);
    case DType::kUint16:
      return LoadPlain<uint16_t>(elements, count, numbers);
    case DType::kUint32:
      return LoadPlain<uint32_t>(elements, count, numbers);
    case DType::kFloat16:
      return LoadEach<uint16_t>(elements, count, numbers, DecodeFloat16);
    case DType::kBfloat16:
      return LoadBfloat16s(elements, count, numbers);
    case DType::kFloat32:
      return LoadFloats(elements, count, numbers);
    case DType::kComplex64:
      return LoadFloats(elements, 2 * count, numbers);
    case DType::kFloat64:
    case DType::kComplex128:
      std::memcpy(numbers, elements, count * DTypeBytes(dtype));
      return;
    default: {
      const ByteTable& table = TableOf(dtype);
      return LoadEach<uint8_t>(elements, count, numbers,
                               [&](uint8_t stored) { return table[stored]; });
    }
  }
}

void LoadLongDoubles(DType dtype, const char* elements, size_t count,
                     long double* numbers) {
  if (dtype == DType::kInt64)
    return LoadLong<int64_t>(elements, count, numbers);
  if (dtype == DType::kUint64) {
    return LoadLong<uint64_t>(elements, count, numbers);
  }
  constexpr size_t kBlock = 256;
  double block[2 * kBlock];
  const size_t parts = PartsOf(dtype);
  for (size_t first = 0; first < count; first += kBlock) {
    const size_t now = count - first < kBlock ? count - first : kBlock;
    LoadDoubles(dtype, elements + first * DTypeBytes(dtype), now, block);
    for (size_t i = 0; i < now * parts; ++i) {
      numbers[first * parts + i] = block[i];
    }
  }
}

}  // namespace holdfast
