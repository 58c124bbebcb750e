// LoadTargets: the memory of devices that one load writes to, checked, with the
// work that the program had queued before; and which targets want the same.
//
// Thread-safety: WaitFor from any thread; otherwise immutable. Ownership:
// shares the targets' owners; owns its events, and borrows the driver.
// Errors: those of Checkpoint::CheckRequest, then those of holdfast/device.h
// with the leaf's name.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <vector>

#include "engine/device/load_plan.h"
#include "ground/base/cancel.h"
#include "ground/device/device_driver.h"
#include "ground/device/pinned_ring.h"
#include "holdfast/checkpoint.h"
#include "holdfast/device.h"

namespace holdfast {

class LoadTargets {
 public:
  struct Target {
    ConstArrayView view;  // its data is an address on the device
    int device = 0;
    size_t point = 0;  // index of what the program had queued before
    std::shared_ptr<const void> owner;
  };

  explicit LoadTargets(DeviceDriver& driver) : driver_(driver) {}
  ~LoadTargets();
  LoadTargets(const LoadTargets&) = delete;
  LoadTargets& operator=(const LoadTargets&) = delete;

  // Checks all requests, and marks the points that the program's streams have
  // reached. Requests without elements are left out. Call once.
  Status Add(const Checkpoint& checkpoint,
             const std::vector<DeviceReadRequest>& requests);

  // The boxes that are wanted, each once for each dtype, by leaf.
  const std::vector<WantedPart>& parts() const { return parts_; }
  // The targets that want a part; there is at least one.
  const std::vector<Target>& of_part(size_t part) const {
    return of_parts_[part];
  }
  // Waits until the work that the program had queued on the target's stream
  // has ended.
  Status WaitFor(const Target& target, const PinnedRing& ring,
                 const CancelToken& cancel);

 private:
  // A point that a stream of the program had reached when the load began.
  struct Point {
    int device = 0;
    uint64_t stream = 0;
    DeviceEvent event = 0;
    std::atomic<bool> has_passed{false};
  };

  Result<Target> MakeTarget(DeviceArray array);
  Result<size_t> PointOf(int device, uint64_t stream);

  DeviceDriver& driver_;
  std::deque<Point> points_;
  std::vector<WantedPart> parts_;
  std::vector<std::vector<Target>> of_parts_;
};

}  // namespace holdfast
