#include "engine/device/loaded_kernels.h"

#include <utility>

#include "ground/base/status_macros.h"

namespace holdfast {

LoadedKernels::LoadedKernels(DeviceDriver& driver, KernelCompiler compile)
    : driver_(driver), compile_(std::move(compile)) {}

Result<const DeviceKernels*> LoadedKernels::Of(int device) {
  const std::lock_guard lock(mutex_);
  const auto loaded = kernels_.find(device);
  if (loaded != kernels_.end()) return loaded->second.get();
  HF_ASSIGN_OR_RETURN(const std::string architecture,
                      driver_.Architecture(device));
  auto image = images_.find(architecture);
  if (image == images_.end()) {
    image = images_.emplace(architecture, compile_(architecture)).first;
  }
  HF_RETURN_IF_ERROR(image->second.status());
  HF_ASSIGN_OR_RETURN(std::unique_ptr<const DeviceKernels> kernels,
                      DeviceKernels::Load(driver_, device, *image->second));
  return (kernels_[device] = std::move(kernels)).get();
}

bool LoadedKernels::AreLoaded(int device) {
  const std::lock_guard lock(mutex_);
  return kernels_.contains(device);
}

}  // namespace holdfast
