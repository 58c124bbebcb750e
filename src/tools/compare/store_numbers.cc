#include "tools/compare/store_numbers.h"

#include <cassert>
#include <cstring>

#include "ground/tensor/float_convert.h"
#include "ground/tensor/float_format.h"

namespace holdfast {
namespace {

template <typename Stored, typename Fn>
void StoreEach(const double* numbers, size_t count, char* elements,
               Fn&& element_of) {
  for (size_t i = 0; i < count; ++i) {
    const auto stored = static_cast<Stored>(element_of(numbers[i]));
    std::memcpy(elements + i * sizeof(Stored), &stored, sizeof(Stored));
  }
}

float ToFloat(double number) { return static_cast<float>(number); }

}  // namespace

void StoreDoubles(DType dtype, const double* numbers, size_t count,
                  char* elements) {
  assert(DTypeKindOf(dtype) >= DTypeKind::kFloat);
  switch (dtype) {
    case DType::kFloat64:
    case DType::kComplex128:
      std::memcpy(elements, numbers, count * DTypeBytes(dtype));
      return;
    case DType::kFloat32:
      return StoreEach<float>(numbers, count, elements, ToFloat);
    case DType::kComplex64:
      return StoreEach<float>(numbers, 2 * count, elements, ToFloat);
    case DType::kFloat16:
      return StoreEach<uint16_t>(numbers, count, elements, [](double number) {
        return EncodeFloat16(number);
      });
    case DType::kBfloat16:
      return StoreEach<uint16_t>(numbers, count, elements, [](double number) {
        return EncodeFloat(kBfloat16Format, number);
      });
    default:
      return StoreEach<uint8_t>(numbers, count, elements, [&](double number) {
        return DoubleToFloatBits(dtype, number);
      });
  }
}

}  // namespace holdfast
