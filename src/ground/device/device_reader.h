// DeviceReader: the elements of an array on a device, for saves.
//
// Read copies its box through the slots of a ring, one piece after another;
// several threads that read share the ring's slots. See holdfast/device.h.
// Thread-safety: any thread. Ownership: shares the array's owner and the ring.
// Units: bytes for strides, elements for boxes. Errors: those of PinnedRing,
// naming the device.
#pragma once

#include <atomic>
#include <memory>

#include "ground/device/device_driver.h"
#include "ground/device/pinned_ring.h"
#include "holdfast/device.h"
#include "holdfast/tree.h"

namespace holdfast {

class DeviceReader : public ArrayReader {
 public:
  // Checks that all elements are in one allocation of the ring's device, and
  // marks the point that the array's stream has reached.
  static Result<std::shared_ptr<const DeviceReader>> Make(
      std::shared_ptr<PinnedRing> ring, DeviceArray array);
  ~DeviceReader() override;

  Status Read(const Shape& origin, const ArrayView& target) const override;
  bool is_live() const override { return true; }

 private:
  friend Result<std::shared_ptr<const ArrayReader>> MakeDeviceReader(
      DeviceArray array);
  // Make, for an array that was checked.
  static Result<std::shared_ptr<const DeviceReader>> Begin(
      std::shared_ptr<PinnedRing> ring, DeviceArray array);
  DeviceReader(std::shared_ptr<PinnedRing> ring, DeviceArray array,
               DeviceEvent written);

  const std::shared_ptr<PinnedRing> ring_;
  const std::shared_ptr<const void> owner_;
  const ConstArrayView view_;  // its data is an address on the device
  const DeviceEvent written_;  // passes when the elements have been written
  mutable std::atomic<bool> is_written_{false};
};

}  // namespace holdfast
