// DeviceFingerprintPlan: how a device computes the sum of a box
// (ground/fingerprint/sum.h) whose elements are contiguous in its memory.
//
// The sum equals SumOfBox of the same elements, bit for bit, so sums of boxes
// on devices and on the host add up. The device writes several partial sums,
// which AddDeviceSums adds. Boxes of long rows are summed at the speed of the
// device's memory; a row of a few bytes occupies 256 threads as a long one
// does.
//
// Thread-safety: pure functions, plain data. Units: bytes. Errors: nullopt for
// a box of so many gaps that only the host sums it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "formats/device/kernel_tables.h"
#include "ground/fingerprint/sum.h"
#include "holdfast/tensor.h"

namespace holdfast {

struct DeviceFingerprintPlan {
  DeviceBox box;
  uint64_t byte_count = 0;  // of the elements
  // The number of DeviceSums that the device writes; 0 for no elements.
  uint32_t sum_count = 0;
};

// The arguments are those of SumOfBox, for elements in C order without gaps.
std::optional<DeviceFingerprintPlan> PlanDeviceFingerprint(
    DType dtype, const Shape& shape, const Shape& origin,
    const Shape& array_shape);

FingerprintSum AddDeviceSums(std::span<const DeviceSum> sums);

}  // namespace holdfast
