// The text of kernels.cuh and of the file that it includes, for NVRTC.
// cmake/kernels.cmake makes it. Thread-safety: constant.
#pragma once

#include "formats/device/nvrtc.h"

namespace holdfast {

DeviceSource KernelSource();

}  // namespace holdfast
