// DeviceDriver: the memory of accelerators, and copies between it and the host.
//
// An address names one byte of any memory that the driver knows. Copies are
// asynchronous: they take effect in the order of their stream, and only an
// event that was recorded after a copy, and has passed, tells that the copy is
// done. Until then neither side of the copy may be changed or read. A program's
// own streams are passed by handle: an event recorded on one marks the point
// that the program's work has reached.
//
// Thread-safety: any thread. Ownership: what a call makes is released by the
// call that is named beside it. Units: bytes.
// Errors: Unavailable (the device is lost, or the driver failed; the next call
// may fail, too), ResourceExhausted (no memory on the device or no pinned
// memory), InvalidArgument (an address or a device that the driver does not
// know), FailedPrecondition (this process was forked after the driver began).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

using DeviceAddress = uint64_t;
// Handles of the driver's own kind (CUstream, CUevent). Stream 0 is the default
// stream.
using DeviceStream = uint64_t;
using DeviceEvent = uint64_t;
using DeviceKernel = uint64_t;

enum class MemoryHome : uint8_t {
  kHost,     // ordinary memory of this process
  kPinned,   // page-locked memory of this process
  kDevice,   // memory of one device
  kManaged,  // memory that moves between the host and devices on access
};

struct AddressInfo {
  MemoryHome home = MemoryHome::kHost;
  int device = -1;  // of kDevice and kManaged
  // The allocation that the address is in; zeros for kHost and kPinned.
  DeviceAddress begin = 0;
  uint64_t byte_count = 0;
};

// The widest pitch on a device; CUDA's bound.
inline constexpr uint64_t kDevicePitchMax = (uint64_t{1} << 31) - 1;

// `row_count` rows of `row_bytes` bytes each. A pitch is the distance from one
// row to the next: at least row_bytes, and at most kDevicePitchMax.
struct RowCopy {
  DeviceAddress device = 0;
  uint64_t device_pitch = 0;
  char* host = nullptr;
  uint64_t host_pitch = 0;
  uint64_t row_bytes = 0;
  uint64_t row_count = 1;
};

// `row_count` rows that are copied between two places of devices' memory.
struct DeviceRowCopy {
  DeviceAddress source = 0;
  uint64_t source_pitch = 0;
  DeviceAddress target = 0;
  uint64_t target_pitch = 0;
  uint64_t row_bytes = 0;
  uint64_t row_count = 1;
};

struct DeviceSpace {
  uint64_t free_bytes = 0;
  uint64_t total_bytes = 0;
};

// An argument of a kernel: 8 bytes, which are an address of the device or a
// number.
struct KernelArgument {
  uint64_t value = 0;
  bool is_address = false;
};

// One dimension of blocks, and one of threads in each block.
struct KernelGrid {
  uint32_t block_count = 1;
  uint32_t block_threads = 1;
};

class DeviceDriver {
 public:
  virtual ~DeviceDriver() = default;

  // Returns the name for messages: "CUDA".
  virtual std::string_view name() const = 0;
  // Returns FailedPrecondition in a process that was forked after the driver
  // had begun.
  virtual Status CheckProcess() const = 0;
  virtual Result<AddressInfo> Describe(DeviceAddress address) = 0;

  // Memory of a device, aligned to at least 256 bytes.
  virtual Result<DeviceAddress> AllocateDevice(int device,
                                               uint64_t byte_count) = 0;
  virtual void FreeDevice(int device, DeviceAddress memory) = 0;
  // Returns how much of the device's memory nobody has allocated. A framework
  // that keeps freed memory for itself has more room than this.
  virtual Result<DeviceSpace> Space(int device) = 0;

  // Page-locked memory, from which copies run at the speed of the bus.
  // All devices can use it; `device` is one that the program uses already.
  virtual Result<char*> AllocatePinned(int device, uint64_t byte_count) = 0;
  virtual void FreePinned(int device, char* memory) = 0;

  // A stream that waits for no other stream.
  virtual Result<DeviceStream> CreateStream(int device) = 0;
  virtual void DestroyStream(int device, DeviceStream stream) = 0;

  virtual Result<DeviceEvent> CreateEvent(int device) = 0;
  virtual void DestroyEvent(int device, DeviceEvent event) = 0;
  // FailedPrecondition while the stream's work is captured into a graph;
  // InvalidArgument for a stream of another device or context.
  virtual Status Record(int device, DeviceEvent event, DeviceStream stream) = 0;
  // Returns whether the event's last Record has passed. Does not block.
  virtual Result<bool> HasPassed(int device, DeviceEvent event) = 0;

  // Begins a copy. It may block if the host's side is not pinned.
  virtual Status CopyToHost(int device, const RowCopy& copy,
                            DeviceStream stream) = 0;
  virtual Status CopyToDevice(int device, const RowCopy& copy,
                              DeviceStream stream) = 0;
  // Begins a copy whose two sides may be on different devices. The stream is
  // one of `device`, which has one of the sides.
  virtual Status CopyOnDevices(int device, const DeviceRowCopy& copy,
                               DeviceStream stream) = 0;
  // Lets the stream's later work wait for the event's last Record.
  virtual Status WaitFor(int device, DeviceStream stream,
                         DeviceEvent event) = 0;

  // Returns the architecture that kernels are compiled for: "compute_90".
  virtual Result<std::string> Architecture(int device) = 0;
  // Loads the function `name` from PTX (text) or a cubin. It stays loaded for
  // as long as the process lives. InvalidArgument for an image that the device
  // cannot run, and for a name that is not in it.
  virtual Result<DeviceKernel> LoadKernel(int device, const std::string& image,
                                          const std::string& name) = 0;
  virtual Status Launch(int device, DeviceKernel kernel, const KernelGrid& grid,
                        std::span<const KernelArgument> arguments,
                        DeviceStream stream) = 0;
};

}  // namespace holdfast
