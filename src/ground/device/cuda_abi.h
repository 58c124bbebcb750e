// The types, constants and functions of CUDA's driver library that
// cuda_driver.cc uses. They are those of cuda.h, which builds do not need.
//
// All of it is part of the library's ABI, which does not change. Where a cuda.h
// is found, cuda_abi_test.cc compares each line with it.
//
// Thread-safety: pure values. Errors: none.
// Formats: cuda.h 11 and later
// (https://docs.nvidia.com/cuda/cuda-driver-api).
#pragma once

#include <cstddef>

#include "ground/device/device_driver.h"

namespace holdfast::cuda {

using CuDevice = int;
using CuResult = int;
struct CuContextImpl;
using CuContext = CuContextImpl*;
struct CuModuleImpl;
using CuModule = CuModuleImpl*;

// F(name, value, name in cuda.h).
#define HOLDFAST_CUDA_RESULTS(F)                                        \
  F(kSuccess, 0, CUDA_SUCCESS)                                          \
  F(kInvalidValue, 1, CUDA_ERROR_INVALID_VALUE)                         \
  F(kOutOfMemory, 2, CUDA_ERROR_OUT_OF_MEMORY)                          \
  F(kNotInitialized, 3, CUDA_ERROR_NOT_INITIALIZED)                     \
  F(kStubLibrary, 34, CUDA_ERROR_STUB_LIBRARY)                          \
  F(kNoDevice, 100, CUDA_ERROR_NO_DEVICE)                               \
  F(kInvalidImage, 200, CUDA_ERROR_INVALID_IMAGE)                       \
  F(kNoBinaryForDevice, 209, CUDA_ERROR_NO_BINARY_FOR_GPU)              \
  F(kInvalidPtx, 218, CUDA_ERROR_INVALID_PTX)                           \
  F(kUnsupportedPtxVersion, 222, CUDA_ERROR_UNSUPPORTED_PTX_VERSION)    \
  F(kInvalidHandle, 400, CUDA_ERROR_INVALID_HANDLE)                     \
  F(kNotFound, 500, CUDA_ERROR_NOT_FOUND)                               \
  F(kNotReady, 600, CUDA_ERROR_NOT_READY)                               \
  F(kDriverMismatch, 803, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)            \
  F(kDriverUnsupported, 804, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE) \
  F(kCaptureImplicit, 906, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)

#define HOLDFAST_CUDA_NUMBERS(F)                                              \
  F(kCaptureRelaxed, 2, CU_STREAM_CAPTURE_MODE_RELAXED)                       \
  F(kStreamNonBlocking, 1, CU_STREAM_NON_BLOCKING)                            \
  F(kEventDisableTiming, 2, CU_EVENT_DISABLE_TIMING)                          \
  F(kHostAllocPortable, 1, CU_MEMHOSTALLOC_PORTABLE)                          \
  F(kAttributeMemoryType, 2, CU_POINTER_ATTRIBUTE_MEMORY_TYPE)                \
  F(kAttributeIsManaged, 8, CU_POINTER_ATTRIBUTE_IS_MANAGED)                  \
  F(kAttributeDeviceOrdinal, 9, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)          \
  F(kAttributeRangeStart, 11, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)          \
  F(kAttributeRangeSize, 12, CU_POINTER_ATTRIBUTE_RANGE_SIZE)                 \
  F(kAttributeComputeMajor, 75, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) \
  F(kAttributeComputeMinor, 76, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) \
  F(kMemoryTypeHost, 1, CU_MEMORYTYPE_HOST)                                   \
  F(kMemoryTypeDevice, 2, CU_MEMORYTYPE_DEVICE)                               \
  F(kMemoryTypeUnified, 4, CU_MEMORYTYPE_UNIFIED)

#define HOLDFAST_CUDA_DEFINE(name, value, theirs) \
  inline constexpr int name = value;
HOLDFAST_CUDA_RESULTS(HOLDFAST_CUDA_DEFINE)
HOLDFAST_CUDA_NUMBERS(HOLDFAST_CUDA_DEFINE)
#undef HOLDFAST_CUDA_DEFINE

// The first driver with all that is used here (CUDA 11).
inline constexpr int kVersionMin = 11000;

// CUDA_MEMCPY2D.
struct CuCopy2d {
  size_t source_x = 0;
  size_t source_y = 0;
  unsigned source_type = 0;
  const void* source_host = nullptr;
  DeviceAddress source_device = 0;
  void* source_array = nullptr;
  size_t source_pitch = 0;
  size_t target_x = 0;
  size_t target_y = 0;
  unsigned target_type = 0;
  void* target_host = nullptr;
  DeviceAddress target_device = 0;
  void* target_array = nullptr;
  size_t target_pitch = 0;
  size_t width_bytes = 0;
  size_t height = 0;
};

// F(name, symbol, parameters). Symbols that end in a version are newer
// than the plain ones, which take 32-bit sizes.
#define HOLDFAST_CUDA_CALLS(F)                                                 \
  F(init, cuInit, (unsigned))                                                  \
  F(driver_version, cuDriverGetVersion, (int*))                                \
  F(error_string, cuGetErrorString, (CuResult, const char**))                  \
  F(device_count, cuDeviceGetCount, (int*))                                    \
  F(device_get, cuDeviceGet, (CuDevice*, int))                                 \
  F(device_attribute, cuDeviceGetAttribute, (int*, int, CuDevice))             \
  F(retain_context, cuDevicePrimaryCtxRetain, (CuContext*, CuDevice))          \
  F(push_context, cuCtxPushCurrent_v2, (CuContext))                            \
  F(pop_context, cuCtxPopCurrent_v2, (CuContext*))                             \
  F(attribute, cuPointerGetAttribute, (void*, int, DeviceAddress))             \
  F(device_alloc, cuMemAlloc_v2, (DeviceAddress*, size_t))                     \
  F(device_free, cuMemFree_v2, (DeviceAddress))                                \
  F(space, cuMemGetInfo_v2, (size_t*, size_t*))                                \
  F(host_alloc, cuMemHostAlloc, (void**, size_t, unsigned))                    \
  F(host_free, cuMemFreeHost, (void*))                                         \
  F(stream_create, cuStreamCreate, (DeviceStream*, unsigned))                  \
  F(stream_destroy, cuStreamDestroy_v2, (DeviceStream))                        \
  F(stream_wait, cuStreamWaitEvent, (DeviceStream, DeviceEvent, unsigned))     \
  F(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, (int*))          \
  F(is_capturing, cuStreamIsCapturing, (DeviceStream, int*))                   \
  F(event_create, cuEventCreate, (DeviceEvent*, unsigned))                     \
  F(event_destroy, cuEventDestroy_v2, (DeviceEvent))                           \
  F(event_record, cuEventRecord, (DeviceEvent, DeviceStream))                  \
  F(event_query, cuEventQuery, (DeviceEvent))                                  \
  F(copy_2d, cuMemcpy2DAsync_v2, (const CuCopy2d*, DeviceStream))              \
  F(copy_to_host, cuMemcpyDtoHAsync_v2,                                        \
    (void*, DeviceAddress, size_t, DeviceStream))                              \
  F(copy_to_device, cuMemcpyHtoDAsync_v2,                                      \
    (DeviceAddress, const void*, size_t, DeviceStream))                        \
  F(copy_on_devices, cuMemcpyAsync,                                            \
    (DeviceAddress, DeviceAddress, size_t, DeviceStream))                      \
  F(module_load, cuModuleLoadData, (CuModule*, const void*))                   \
  F(module_function, cuModuleGetFunction,                                      \
    (DeviceKernel*, CuModule, const char*))                                    \
  F(module_unload, cuModuleUnload, (CuModule))                                 \
  F(launch, cuLaunchKernel,                                                    \
    (DeviceKernel, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
     unsigned, DeviceStream, void**, void**))

struct CudaCalls {
#define HOLDFAST_DECLARE(name, symbol, parameters) \
  CuResult(*name) parameters = nullptr;
  HOLDFAST_CUDA_CALLS(HOLDFAST_DECLARE)
#undef HOLDFAST_DECLARE
};

}  // namespace holdfast::cuda
