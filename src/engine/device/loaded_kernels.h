// LoadedKernels: the kernels of formats/device, loaded into each device that
// needs them, and kept.
//
// Thread-safety: any thread; the first call for an architecture compiles, which
// takes about a second, and others wait. Ownership: borrows the driver.
// Units: none. Errors: those of CompileDeviceKernels, which stay for the
// architecture, and those of DeviceKernels::Load.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "formats/device/device_kernels.h"
#include "ground/device/device_driver.h"

namespace holdfast {

// Returns an image for an architecture, as CompileDeviceKernels does.
using KernelCompiler =
    std::function<Result<std::string>(std::string_view architecture)>;

class LoadedKernels {
 public:
  LoadedKernels(DeviceDriver& driver, KernelCompiler compile);

  // The kernels live as long as this.
  Result<const DeviceKernels*> Of(int device);
  // Returns whether Of has loaded the device's kernels before.
  bool AreLoaded(int device);

 private:
  DeviceDriver& driver_;
  const KernelCompiler compile_;
  std::mutex mutex_;
  std::map<std::string, Result<std::string>> images_;  // by architecture
  std::map<int, std::unique_ptr<const DeviceKernels>> kernels_;  // by device
};

}  // namespace holdfast
