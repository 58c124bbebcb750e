// Compares cuda_abi.h with the cuda.h of a toolkit, if the build found one. The
// comparisons are made by the compiler.
#include "ground/device/cuda_abi.h"

#include "gtest/gtest.h"

#if __has_include(<cuda.h>)
#include <cuda.h>

#include <string_view>
#include <type_traits>

namespace holdfast {
namespace {

#define HOLDFAST_SAME_NUMBER(name, value, theirs) \
  static_assert(cuda::name == static_cast<int>(theirs));
HOLDFAST_CUDA_RESULTS(HOLDFAST_SAME_NUMBER)
HOLDFAST_CUDA_NUMBERS(HOLDFAST_SAME_NUMBER)
#undef HOLDFAST_SAME_NUMBER

static_assert(sizeof(cuda::CuCopy2d) == sizeof(::CUDA_MEMCPY2D));
#define HOLDFAST_SAME_MEMBER(ours, theirs)                                   \
  static_assert(                                                             \
      offsetof(cuda::CuCopy2d, ours) == offsetof(::CUDA_MEMCPY2D, theirs) && \
      sizeof(cuda::CuCopy2d::ours) == sizeof(::CUDA_MEMCPY2D::theirs));
HOLDFAST_SAME_MEMBER(source_x, srcXInBytes)
HOLDFAST_SAME_MEMBER(source_y, srcY)
HOLDFAST_SAME_MEMBER(source_type, srcMemoryType)
HOLDFAST_SAME_MEMBER(source_host, srcHost)
HOLDFAST_SAME_MEMBER(source_device, srcDevice)
HOLDFAST_SAME_MEMBER(source_array, srcArray)
HOLDFAST_SAME_MEMBER(source_pitch, srcPitch)
HOLDFAST_SAME_MEMBER(target_x, dstXInBytes)
HOLDFAST_SAME_MEMBER(target_y, dstY)
HOLDFAST_SAME_MEMBER(target_type, dstMemoryType)
HOLDFAST_SAME_MEMBER(target_host, dstHost)
HOLDFAST_SAME_MEMBER(target_device, dstDevice)
HOLDFAST_SAME_MEMBER(target_array, dstArray)
HOLDFAST_SAME_MEMBER(target_pitch, dstPitch)
HOLDFAST_SAME_MEMBER(width_bytes, WidthInBytes)
HOLDFAST_SAME_MEMBER(height, Height)
#undef HOLDFAST_SAME_MEMBER

// Returns the size of what a parameter points to; 0 for a type without one
// (void, handles).
template <typename T>
constexpr size_t PointeeBytes() {
  using Pointee = std::remove_pointer_t<T>;
  if constexpr (std::is_pointer_v<T> && requires { sizeof(Pointee); } &&
                !std::is_void_v<Pointee>) {
    return sizeof(Pointee);
  }
  return 0;
}

// Whether a caller passes both types in the same way. Handles and addresses are
// numbers here and pointers there.
template <typename Ours, typename Theirs>
constexpr bool IsSameParameter() {
  if (std::is_floating_point_v<Ours> || std::is_floating_point_v<Theirs>) {
    return false;
  }
  constexpr size_t kOurs = PointeeBytes<Ours>();
  constexpr size_t kTheirs = PointeeBytes<Theirs>();
  return sizeof(Ours) == sizeof(Theirs) &&
         (kOurs == 0 || kTheirs == 0 || kOurs == kTheirs);
}

template <typename... Ours, typename... Theirs>
constexpr bool IsSameFunction(cuda::CuResult (*)(Ours...),
                              ::CUresult (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) == sizeof...(Theirs)) {
    return (IsSameParameter<Ours, Theirs>() && ...);
  }
  return false;
}

static_assert(sizeof(::CUresult) == sizeof(cuda::CuResult));
// If cuda.h has a macro of the symbol's name, the symbol is not the newest.
#define HOLDFAST_AS_TEXT(symbol) #symbol
#define HOLDFAST_SAME_CALL(name, symbol, parameters)                        \
  static_assert(std::string_view(#symbol) == HOLDFAST_AS_TEXT(symbol));     \
  static_assert(                                                            \
      IsSameFunction(static_cast<decltype(cuda::CudaCalls::name)>(nullptr), \
                     static_cast<decltype(&::symbol)>(nullptr)));
HOLDFAST_CUDA_CALLS(HOLDFAST_SAME_CALL)
#undef HOLDFAST_SAME_CALL
#undef HOLDFAST_AS_TEXT

TEST(CudaAbi, IsThatOfCudaH) { RecordProperty("cuda_version", CUDA_VERSION); }

}  // namespace
}  // namespace holdfast
#else
TEST(CudaAbi, IsThatOfCudaH) { GTEST_SKIP() << "this build found no cuda.h"; }
#endif
