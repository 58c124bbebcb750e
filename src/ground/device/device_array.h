// Checks of a DeviceArray, which a program describes.
//
// Thread-safety: pure functions, but for DeviceOf, which asks the driver.
// Units: bytes for strides. Errors: InvalidArgument (a description that is not
// that of an array on a device), and those of DeviceDriver.
#pragma once

#include "ground/device/device_driver.h"
#include "holdfast/device.h"

namespace holdfast {

// Fills in strides that were left empty: those of C order.
void FillStrides(DeviceArray& array);
// Checks rank, extents and strides.
Status CheckShape(const DeviceArray& array);
// Checks that all elements are in one allocation, and returns its device.
// REQUIRES: CheckShape(array) is ok.
Result<int> DeviceOf(DeviceDriver& driver, const DeviceArray& array);
// Returns a view whose data is the address on the device, never followed.
ConstArrayView ViewOf(const DeviceArray& array);

}  // namespace holdfast
