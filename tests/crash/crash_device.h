// CrashDevice: a device that holds the arrays of saves under test, and the
// page-locked memory that they are copied through.
//
// Thread-safety: one thread calls; several may save the trees.
// Ownership: owns the device; must outlive the trees that it holds.
// Errors: those of DeviceDriver.
#pragma once

#include <memory>

#include "ground/device/pinned_ring.h"
#include "holdfast/status.h"
#include "holdfast/tree.h"
#include "twins/device_twin.h"

namespace holdfast {

class CrashDevice {
 public:
  CrashDevice() { Restart(); }

  // Makes the device and the page-locked memory anew, as for a new process.
  // REQUIRES: no tree is held.
  void Restart();
  // Gives the page-locked memory back. REQUIRES: Restart before the next Hold.
  void Stop() { ring_.reset(); }

  // Returns the tree, a dict of leaves, with its arrays and shards in the
  // device's memory, which is freed with the last copy of the tree.
  Result<Tree> Hold(const Tree& tree);

  DeviceTwin& twin() { return *twin_; }

 private:
  Result<Tree> HoldLeaf(const Tree& leaf);
  Result<std::shared_ptr<const ArrayReader>> HoldArray(const Array& array);

  std::unique_ptr<DeviceTwin> twin_;
  std::shared_ptr<PinnedRing> ring_;
};

}  // namespace holdfast
