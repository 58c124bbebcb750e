// The kernels of formats/device in their host form, for a DeviceTwin.
//
// Blocks run one after the other, and in each phase the threads of a block one
// after the other, so that the host's sanitizers see every access.
// Thread-safety: any thread.
#pragma once

#include "twins/device_twin.h"

namespace holdfast {

void AddDeviceKernels(DeviceTwin& twin);

}  // namespace holdfast
