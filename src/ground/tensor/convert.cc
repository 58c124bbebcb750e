// ConvertStrided: every pair of dtypes is converted in two steps, source ->
// wide type -> target, block by block in the first-level cache. The wide type
// is chosen so that the two steps give TensorStore's results:
//   integer to integer                  int64_t   (wraps, modulo 2^64)
//   float64 to integers and floats of   double
//   8 bits and less, and integers and
//   float8_e8m0fnu to float64
//   all else                            float     (integers, and float64 on its
//                                       way to 16 bits, are rounded twice)
// A run that already holds the wide type is used in place. Complex numbers are
// converted as views of their real and imaginary halves.
//
// TensorStore has no uint2 and uint4: they follow the rules of int2 and int4.
#include <algorithm>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ground/tensor/copy.h"
#include "ground/tensor/element.h"
#include "ground/tensor/strided.h"

namespace holdfast {
namespace {

template <typename Wide>
using LoadFn = void (*)(const char* source, int64_t stride, int64_t count,
                        Wide* target);
template <typename Wide>
using StoreFn = void (*)(const Wide* source, char* target, int64_t stride,
                         int64_t count);

// Loads one run. A view may refer to unaligned memory, so this uses memcpy.
template <typename Element, typename Wide>
void LoadRun(const char* __restrict source, int64_t stride, int64_t count,
             Wide* __restrict target) {
  typename Element::Storage stored;
  if (stride == sizeof(stored)) {
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(&stored, source + i * sizeof(stored), sizeof(stored));
      target[i] = Element::template Load<Wide>(stored);
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(&stored, source + i * stride, sizeof(stored));
    target[i] = Element::template Load<Wide>(stored);
  }
}

template <typename Element, typename Wide>
void StoreRun(const Wide* __restrict source, char* __restrict target,
              int64_t stride, int64_t count) {
  typename Element::Storage stored;
  if (stride == sizeof(stored)) {
    for (int64_t i = 0; i < count; ++i) {
      stored = Element::Store(source[i]);
      std::memcpy(target + i * sizeof(stored), &stored, sizeof(stored));
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    stored = Element::Store(source[i]);
    std::memcpy(target + i * stride, &stored, sizeof(stored));
  }
}

// Returns whether ChooseWide may pair this element type with Wide.
template <typename Element, typename Wide>
constexpr bool GoesThrough() {
  if (std::is_same_v<Wide, int64_t>) return Element::kInteger;
  if (std::is_same_v<Wide, double>) return Element::kDouble;
  return true;
}

template <typename Wide>
LoadFn<Wide> FindLoad(DType dtype) {
  return VisitElement(dtype, [](auto element) -> LoadFn<Wide> {
    using Element = decltype(element);
    if constexpr (GoesThrough<Element, Wide>()) return LoadRun<Element, Wide>;
    return nullptr;
  });
}

template <typename Wide>
StoreFn<Wide> FindStore(DType dtype) {
  return VisitElement(dtype, [](auto element) -> StoreFn<Wide> {
    using Element = decltype(element);
    if constexpr (GoesThrough<Element, Wide>()) return StoreRun<Element, Wide>;
    return nullptr;
  });
}

bool IsComplex(DType dtype) {
  return DTypeKindOf(dtype) == DTypeKind::kComplex;
}

bool IsInteger(DType dtype) {
  return DTypeKindOf(dtype) != DTypeKind::kFloat && !IsComplex(dtype);
}

bool IsFloat8(DType dtype) {
  return DTypeBits(dtype) == 8 && DTypeKindOf(dtype) == DTypeKind::kFloat;
}

// Returns the first step through float. It depends on the target for
// float8_e8m0fnu, which TensorStore decodes in several ways.
LoadFn<float> FindLoadTo(DType source, DType target) {
  if (source != DType::kFloat8E8m0fnu) return FindLoad<float>(source);
  if (target == DType::kFloat4E2m1fn) {
    return LoadRun<E8m0Element<E8m0Decoding::kToFloat4>, float>;
  }
  if (IsInteger(target) && target != DType::kBool) {
    return LoadRun<E8m0Element<E8m0Decoding::kToInteger>, float>;
  }
  const bool is_exact =
      target == DType::kBool || target == DType::kFloat16 || IsFloat8(target);
  return is_exact ? LoadRun<E8m0Element<E8m0Decoding::kExact>, float>
                  : LoadRun<E8m0Element<E8m0Decoding::kWrapped>, float>;
}

// Returns the second step from an 8-bit float, whose NaN and infinity need
// special treatment.
StoreFn<float> FindStoreFromFloat8(DType target) {
  if (target == DType::kBool) return FindStore<float>(target);
  if (target == DType::kFloat16) {
    return StoreRun<Float16FromFloat8Element, float>;
  }
  if (target == DType::kBfloat16) {
    return StoreRun<Bfloat16FromFloat8Element, float>;
  }
  if (!IsInteger(target)) return FindStore<float>(target);
  return VisitElement(target, [](auto element) -> StoreFn<float> {
    using Element = decltype(element);
    if constexpr (requires { Element::kHighest; }) {
      return StoreRun<FromFloat8Element<Element>, float>;
    }
    return nullptr;
  });
}

StoreFn<float> FindStoreFrom(DType source, DType target) {
  if (IsFloat8(source)) return FindStoreFromFloat8(target);
  if (source == DType::kFloat16 && target == DType::kFloat8E5m2) {
    return StoreRun<E5m2FromFloat16Element, float>;
  }
  return FindStore<float>(target);
}

template <typename Wide>
constexpr DType DTypeOfWide() {
  if (std::is_same_v<Wide, int64_t>) return DType::kInt64;
  if (std::is_same_v<Wide, double>) return DType::kFloat64;
  return DType::kFloat32;
}

// The two steps of a conversion; a null step is a copy.
template <typename Wide>
struct Steps {
  LoadFn<Wide> load = nullptr;
  StoreFn<Wide> store = nullptr;
};

template <typename Wide>
bool InPlace(const char* data, int64_t stride) {
  // Both the stride and the address must be suitable before elements may be
  // read as a Wide array.
  return stride == sizeof(Wide) &&
         reinterpret_cast<uintptr_t>(data) % alignof(Wide) == 0;
}

// Converts one run. A side that already holds Wide in order is used in place.
template <typename Wide>
void ConvertRun(const Steps<Wide>& steps, bool source_is_wide,
                bool target_is_wide, const char* source, char* target,
                const LoopDim& dim) {
  if (source_is_wide && InPlace<Wide>(source, dim.source_stride)) {
    return steps.store(reinterpret_cast<const Wide*>(source), target,
                       dim.target_stride, dim.extent);
  }
  if (target_is_wide && InPlace<Wide>(target, dim.target_stride)) {
    return steps.load(source, dim.source_stride, dim.extent,
                      reinterpret_cast<Wide*>(target));
  }
  constexpr int64_t kBlock = 512;
  Wide block[kBlock];
  for (int64_t done = 0; done < dim.extent; done += kBlock) {
    const int64_t count = std::min(kBlock, dim.extent - done);
    steps.load(source + done * dim.source_stride, dim.source_stride, count,
               block);
    steps.store(block, target + done * dim.target_stride, dim.target_stride,
                count);
  }
}

template <typename Wide>
void ConvertThrough(const Steps<Wide>& steps, const ConstArrayView& source,
                    const ArrayView& target) {
  assert(steps.load != nullptr && steps.store != nullptr);
  const StridedLoops loops = PlanLoops(source, target);
  if (loops.empty) return;
  const bool source_is_wide = source.dtype == DTypeOfWide<Wide>();
  const bool target_is_wide = target.dtype == DTypeOfWide<Wide>();
  ForEachRun(loops, 1, [&](const char* from, char* to) {
    ConvertRun(steps, source_is_wide, target_is_wide, from, to, loops.inner());
    return true;
  });
}

template <typename Wide>
void ConvertThrough(const ConstArrayView& source, const ArrayView& target) {
  ConvertThrough<Wide>(
      {FindLoad<Wide>(source.dtype), FindStore<Wide>(target.dtype)}, source,
      target);
}

// Returns true for int8 ... int64 and uint8 ... uint64 of one size, which have
// the same bits.
bool SameSizeIntegers(DType a, DType b) {
  const auto native = [](DType dtype) {
    return IsInteger(dtype) && dtype != DType::kBool && DTypeBits(dtype) >= 8;
  };
  return native(a) && native(b) && DTypeBytes(a) == DTypeBytes(b);
}

// REQUIRES: neither dtype is complex.
bool GoesThroughDouble(DType source, DType target) {
  if (target == DType::kFloat64) {
    return IsInteger(source) || source == DType::kFloat8E8m0fnu;
  }
  return source == DType::kFloat64 &&
         (IsInteger(target) || DTypeBits(target) <= 8);
}

// Returns the real (part 0) or imaginary (part 1) halves of a complex view.
template <typename View>
View PartOf(View view, int part) {
  view.dtype =
      view.dtype == DType::kComplex128 ? DType::kFloat64 : DType::kFloat32;
  if (view.data != nullptr) view.data += part * DTypeBytes(view.dtype);
  return view;
}

void ComplexToBool(const ConstArrayView& source, const ArrayView& target) {
  Steps<int64_t> steps;
  steps.load = source.dtype == DType::kComplex128
                   ? LoadRun<ComplexTruth<double>, int64_t>
                   : LoadRun<ComplexTruth<float>, int64_t>;
  steps.store = StoreRun<BoolElement, int64_t>;
  ConvertThrough(steps, source, target);
}

// REQUIRES: the target is complex.
void ConvertToComplex(const ConstArrayView& source, const ArrayView& target) {
  const ArrayView imaginary = PartOf(target, 1);
  if (IsComplex(source.dtype)) {
    ConvertStrided(PartOf(source, 0), PartOf(target, 0));
    ConvertStrided(PartOf(source, 1), imaginary);
    return;
  }
  const ArrayView real = PartOf(target, 0);
  if (source.dtype == DType::kFloat8E8m0fnu) {
    ConvertThrough<float>({FindLoadTo(source.dtype, DType::kFloat32),
                           FindStore<float>(real.dtype)},
                          source, real);
  } else {
    ConvertStrided(source, real);
  }
  constexpr char kZero[8] = {};
  FillStrided(imaginary, kZero);
}

}  // namespace

void ConvertStrided(const ConstArrayView& source, const ArrayView& target) {
  if (source.dtype == target.dtype) return CopyStrided(source, target);
  if (IsComplex(target.dtype)) return ConvertToComplex(source, target);
  if (IsComplex(source.dtype)) {
    if (target.dtype == DType::kBool) return ComplexToBool(source, target);
    return ConvertStrided(PartOf(source, 0), target);
  }
  if (SameSizeIntegers(source.dtype, target.dtype)) {
    return CopyStrided(
        source, {source.dtype, target.data, target.shape, target.strides});
  }
  if (IsInteger(source.dtype) && IsInteger(target.dtype)) {
    return ConvertThrough<int64_t>(source, target);
  }
  if (GoesThroughDouble(source.dtype, target.dtype)) {
    return ConvertThrough<double>(source, target);
  }
  // A NaN of float8_e5m2 has payload bits that float32 would lose.
  if (source.dtype == DType::kFloat8E5m2 && target.dtype == DType::kFloat16) {
    return ConvertThrough<int64_t>({LoadRun<IntegerElement<uint8_t>, int64_t>,
                                    StoreRun<Float16FromE5m2Element, int64_t>},
                                   source, target);
  }
  ConvertThrough<float>({FindLoadTo(source.dtype, target.dtype),
                         FindStoreFrom(source.dtype, target.dtype)},
                        source, target);
}

}  // namespace holdfast
