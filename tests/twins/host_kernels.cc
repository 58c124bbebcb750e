#include "twins/host_kernels.h"

#include <cassert>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

namespace {

// CUDA's built-in variables.
struct Dimension {
  uint32_t x = 0;
};
thread_local Dimension blockIdx;
thread_local Dimension gridDim;
thread_local Dimension blockDim;

}  // namespace

#define HF_KERNEL static void
#define HF_SHARED(type, name) type name
#define HF_UNROLL
#define HF_EACH_THREAD(t) for (uint32_t t = 0; t < blockDim.x; ++t)
#include "formats/device/kernels.cuh"

namespace holdfast {
namespace {

template <typename T>
T ArgumentAs(uint64_t value) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<T>(value);
  } else {
    return static_cast<T>(value);
  }
}

template <typename... Arguments, size_t... kIndexes>
void RunBlock(void (*kernel)(Arguments...), std::span<const uint64_t> arguments,
              std::index_sequence<kIndexes...>) {
  kernel(ArgumentAs<Arguments>(arguments[kIndexes])...);
}

template <typename... Arguments>
DeviceTwin::HostKernel HostForm(void (*kernel)(Arguments...)) {
  return [kernel](const KernelGrid& grid, std::span<const uint64_t> arguments) {
    blockDim.x = grid.block_threads;
    gridDim.x = grid.block_count;
    for (uint32_t block = 0; block < grid.block_count; ++block) {
      blockIdx.x = block;
      RunBlock(kernel, arguments, std::index_sequence_for<Arguments...>());
    }
  };
}

}  // namespace

void AddDeviceKernels(DeviceTwin& twin) {
  twin.AddKernel("holdfast_expand_pieces", HostForm(holdfast_expand_pieces));
  twin.AddKernel("holdfast_check_frames", HostForm(holdfast_check_frames));
  twin.AddKernel("holdfast_join_planes", HostForm(holdfast_join_planes));
  twin.AddKernel("holdfast_sum_box", HostForm(holdfast_sum_box));
}

}  // namespace holdfast
