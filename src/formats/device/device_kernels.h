// DeviceKernels: the kernels of kernels.cuh, loaded into one device.
//
// A call queues work on a stream and returns. The memory that it is given must
// stay as it is until an event that is recorded afterwards has passed.
//
// Thread-safety: any thread. Ownership: borrows the driver; all memory is the
// caller's. Units: bytes. Errors: those of Nvrtc and of DeviceDriver.
#pragma once

#include <memory>
#include <string>

#include "formats/device/device_fingerprint.h"
#include "formats/device/device_planes.h"
#include "ground/device/device_driver.h"

namespace holdfast {

// Compiles the kernels for a device. This takes about a second, so callers keep
// the image for all devices of an architecture.
Result<std::string> CompileDeviceKernels(std::string_view architecture);

// Memory of the device, each address a multiple of 16 but for the elements'.
struct DevicePlanesMemory {
  DeviceAddress encoded = 0;  // a copy of the containers
  uint64_t encoded_bytes = 0;
  DeviceAddress work = 0;  // plan.work_bytes(), with the tables at its start
  DeviceAddress elements = 0;
  uint64_t elements_bytes = 0;
};

class DeviceKernels {
 public:
  static Result<std::unique_ptr<const DeviceKernels>> Load(
      DeviceDriver& driver, int device, const std::string& image);

  // Begins to decode the plan's containers. Afterwards the results are in
  // `memory.work`; elements of containers that are not decoded are undefined.
  // REQUIRES: the memory has the sizes that the plan states.
  Status DecodePlanes(const DevicePlanesPlan& plan,
                      const DevicePlanesMemory& memory,
                      DeviceStream stream) const;

  // Begins to sum the plan's box, whose elements are at `elements`, which may
  // be any address. Writes plan.sum_count DeviceSums at `sums`.
  Status SumBox(const DeviceFingerprintPlan& plan, DeviceAddress elements,
                DeviceAddress sums, DeviceStream stream) const;

 private:
  DeviceKernels(DeviceDriver& driver, int device)
      : driver_(driver), device_(device) {}

  DeviceDriver& driver_;
  const int device_;
  DeviceKernel expand_pieces_ = 0;
  DeviceKernel check_frames_ = 0;
  DeviceKernel join_planes_ = 0;
  DeviceKernel sum_box_ = 0;
};

}  // namespace holdfast
