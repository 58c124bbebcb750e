// The CUDA driver, loaded when it is first asked for.
//
// libcuda.so.1 belongs to the kernel's driver and is on every machine with an
// NVIDIA GPU, whatever toolkit there is, so that one build serves all. Devices
// are used through their primary contexts, which torch and jax use, too.
//
// Thread-safety: any thread. Ownership: the driver lives as long as the
// process. Errors: FailedPrecondition (no library, no device, or a library that
// is too old), Unavailable (the library failed to begin); the same error again
// at each call.
// Formats: the functions and constants of cuda.h 12, by their documented
// numbers (https://docs.nvidia.com/cuda/cuda-driver-api).
#pragma once

#include <string>

#include "ground/device/device_driver.h"
#include "holdfast/status.h"

namespace holdfast {

Result<DeviceDriver*> CudaDriver();
// Loads a driver from `library` instead; for tests.
Result<std::unique_ptr<DeviceDriver>> LoadCudaDriver(
    const std::string& library);

}  // namespace holdfast
