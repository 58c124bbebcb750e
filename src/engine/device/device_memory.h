// DeviceMemory: memory of a device that a load needs for itself.
//
// Thread-safety: immutable. Ownership: frees the memory; borrows the driver.
// Slots share it until their work has ended. Units: bytes. Errors: none.
#pragma once

#include <cstdint>
#include <memory>

#include "ground/device/device_driver.h"

namespace holdfast {

class DeviceMemory {
 public:
  // Returns null if the device has no room.
  static std::shared_ptr<const DeviceMemory> Allocate(DeviceDriver& driver,
                                                      int device,
                                                      uint64_t byte_count) {
    const auto address = driver.AllocateDevice(device, byte_count);
    if (!address.ok()) return nullptr;
    return std::make_shared<const DeviceMemory>(driver, device, *address,
                                                byte_count);
  }

  DeviceMemory(DeviceDriver& driver, int device, DeviceAddress address,
               uint64_t byte_count)
      : driver_(driver),
        device_(device),
        address_(address),
        byte_count_(byte_count) {}
  ~DeviceMemory() { driver_.FreeDevice(device_, address_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  DeviceDriver& driver() const { return driver_; }
  DeviceAddress address() const { return address_; }
  uint64_t byte_count() const { return byte_count_; }

 private:
  DeviceDriver& driver_;
  const int device_;
  const DeviceAddress address_;
  const uint64_t byte_count_;
};

}  // namespace holdfast
