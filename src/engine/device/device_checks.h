// DeviceChecks: compares complete arrays in the memory of devices with their
// saved fingerprints (OpenOptions::fingerprints). The devices compute the sums.
//
// A target is checked if it wants all elements of a leaf with a fingerprint, in
// their own dtype, and has them in C order without gaps; and if its device can
// run the kernels and has room for the sums. LoadFingerprints checks the others
// before they are copied.
// Thread-safety: one thread. Ownership: borrows targets, leaves and kernels;
// shares the targets' owners and the devices' memory with the ring until its
// work has ended. Units: bytes. Errors: DataLoss, as Checkpoint::ReadInto, with
// the device; those of PinnedRing with leaf and device; Cancelled.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/device/device_memory.h"
#include "engine/device/load_targets.h"
#include "engine/device/loaded_kernels.h"
#include "formats/device/device_fingerprint.h"
#include "ground/base/cancel.h"
#include "ground/device/pinned_ring.h"
#include "holdfast/checkpoint.h"

namespace holdfast {

class DeviceChecks {
 public:
  DeviceChecks(const LoadTargets& targets, const std::vector<LeafInfo>& leaves)
      : targets_(targets), leaves_(leaves) {}

  // Finds the targets to check, loads the kernels, and takes the memory for the
  // sums. `ring` is the one that Run gets. Call once, after LoadTargets::Add.
  void Plan(LoadedKernels& kernels, PinnedRing& ring);
  // The leaves that have targets to check.
  std::set<size_t> leaves() const;
  // Those of them of which every complete target is checked.
  const std::set<size_t>& complete_leaves() const { return complete_leaves_; }

  // Checks all targets. Call it once all copies have ended, without a slot.
  Status Run(PinnedRing& ring, const CancelToken& cancel) const;

 private:
  using Target = LoadTargets::Target;
  struct Check {
    size_t leaf = 0;
    const Target* target = nullptr;
    DeviceFingerprintPlan plan;
  };
  // The checks on one device.
  struct Device {
    int number = 0;
    const DeviceKernels* kernels = nullptr;
    std::shared_ptr<const DeviceMemory> sums;
    std::vector<Check> checks;
  };

  // Returns whether the target is checked.
  bool Add(size_t leaf, const Target& target, LoadedKernels& kernels,
           PinnedRing& ring);
  // Returns the device of this number, or null if it computes no sums.
  Device* DeviceOf(int number, LoadedKernels& kernels, PinnedRing& ring);
  // Checks targets whose sums fit into one slot.
  Status RunBatch(const Device& device, std::span<const Check> batch,
                  PinnedRing& ring) const;
  // Begins to compute the sums, and to copy them to `host`.
  static Status QueueSums(const Device& device, std::span<const Check> batch,
                          char* host, DeviceStream stream);
  Status Compare(const Check& check, std::span<const DeviceSum> sums) const;

  const LoadTargets& targets_;
  const std::vector<LeafInfo>& leaves_;
  uint64_t batch_bytes_ = 0;     // of sums
  std::vector<Device> devices_;  // without kernels: it computes no sums
  std::set<size_t> complete_leaves_;
};

}  // namespace holdfast
