// Which rows of devices' memory a box of a strided array lies in.
//
// Thread-safety: pure functions. Units: bytes for strides and pitches, elements
// for boxes. Errors: none; a box outside its array is the caller's bug.
#pragma once

#include <cstdint>
#include <vector>

#include "ground/device/device_driver.h"
#include "ground/tensor/box.h"
#include "holdfast/tensor.h"

namespace holdfast {

// Cuts `box` into boxes of at most byte_count_max bytes of elements each (at
// least one element), which cover it exactly once. Cuts are made along the
// dimensions that are farthest apart in memory.
std::vector<Box> CutBox(const ConstArrayView& array, const Box& box,
                        uint64_t byte_count_max);

// The copies of a box into compact memory on the host, or from it.
struct BoxRows {
  std::vector<RowCopy> copies;
  // The box in the compact memory. Dimensions that the array repeats (stride 0)
  // are copied once, and repeated here as well.
  ArrayView view;
};

// `array.data` is an address on the device, never followed. The compact memory
// at `host` holds the box in the order of the device's memory, so that rows are
// as long as possible.
BoxRows RowsOf(const ConstArrayView& array, const Box& box, char* host);

// Returns the copies from one array on a device to another of the same dtype
// and shape. The data of both are addresses on devices. REQUIRES: the target
// repeats no elements.
std::vector<DeviceRowCopy> RowsBetween(const ConstArrayView& source,
                                       const ConstArrayView& target);

}  // namespace holdfast
