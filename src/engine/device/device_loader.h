// DeviceLoader: loads into the memory of devices; see holdfast/device.h.
//
// A load is cut into windows (LoadPlan). A few lanes, each a thread with its
// share of the call's threads, take one window after another: a lane reads it
// with Checkpoint::ReadInto, into a slot of page-locked memory whose layout is
// that of the targets, queues the copies to the devices, and waits for them.
// While one lane waits, the others read. Byte planes stay encoded, and the
// devices decode them (WindowDecoder).
// Thread-safety: any thread. Ownership: keeps its slots for later loads; the
// driver is borrowed. Units: bytes. Errors: those of Checkpoint::ReadInto, and,
// with the leaf and the device, those of PinnedRing and DeviceChecks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/device/loaded_kernels.h"
#include "ground/device/device_driver.h"
#include "ground/device/pinned_ring.h"
#include "holdfast/checkpoint.h"
#include "holdfast/device.h"

namespace holdfast {

struct DeviceLoaderOptions {
  // The sizes of windows, ascending. A load uses the smallest that holds its
  // chunks and gives each lane one window at most.
  std::vector<uint64_t> window_bytes = {uint64_t{1} << 20, uint64_t{8} << 20,
                                        uint64_t{64} << 20,
                                        uint64_t{256} << 20};
  int lane_count_max = 4;
  uint64_t pinned_bytes_max = PinnedBudget::OfProcess()->byte_count_max();
  int64_t wait_seconds_max = PinnedRingOptions().wait_seconds_max;
  KernelCompiler compile_kernels = CompileDeviceKernels;
  // From this many bytes of byte planes on, a load is worth the time that the
  // kernels take to compile. Once they are there, all loads use them.
  uint64_t decode_bytes_min = uint64_t{4} << 30;
};

class DeviceLoader {
 public:
  // Without a budget, the loader has one of its own, of pinned_bytes_max.
  DeviceLoader(DeviceDriver& driver, DeviceLoaderOptions options,
               std::shared_ptr<PinnedBudget> budget = nullptr);

  // ReadIntoDevices on this driver's devices.
  Result<Stats> Read(const Checkpoint& checkpoint,
                     const std::vector<DeviceReadRequest>& requests,
                     const RunOptions& run);

 private:
  friend class DeviceLoad;

  // Returns the ring with slots of this size, which is kept. A new one is made
  // for `device`, but serves all.
  PinnedRing& RingOf(uint64_t slot_bytes, int device);

  DeviceDriver& driver_;
  const DeviceLoaderOptions options_;
  const std::shared_ptr<PinnedBudget> budget_;  // of all rings
  LoadedKernels kernels_;
  std::mutex mutex_;
  std::map<uint64_t, std::unique_ptr<PinnedRing>> rings_;  // by slot_bytes
};

}  // namespace holdfast
