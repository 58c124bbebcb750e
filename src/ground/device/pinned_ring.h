// PinnedRing: the page-locked memory through which copies between devices and
// the host pass.
//
// It has equal slots, each with its own stream and event on each device that it
// is used with, so that copies through different slots run side by side. Slots
// are made when they are first needed, up to the bound, and kept for later
// calls. Rings may share a budget, and then take spare slots from each other.
// If the system refuses page-locked memory, the ring makes do with the slots
// that it has; if it never had any, slots are ordinary memory, copies are
// slower, and stderr says so once.
//
// Thread-safety: any thread. A budget's mutex is locked before those of its
// rings; pinning_ is locked without any of them. Ownership: owns its slots;
// shares the budget; borrows the driver.
// Units: bytes. Errors: those of DeviceDriver; DeadlineExceeded (a copy did not
// end in time, because the work that the program queued before it does not).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "ground/base/bytes.h"
#include "ground/base/cancel.h"
#include "ground/device/device_driver.h"

namespace holdfast {

struct PinnedRingOptions {
  uint64_t slot_bytes = uint64_t{8} << 20;
  uint64_t byte_count_max = uint64_t{1} << 30;  // without a shared budget
  // How long a caller waits: for a copy, the program's work, or any slot that
  // others give back.
  int64_t wait_seconds_max = 600;
};

class PinnedRing;

// The bound of the memory that several rings have together. Each may have one
// slot in any case, so that none waits for another that keeps its own.
// Thread-safety: any thread. Units: bytes.
class PinnedBudget {
 public:
  explicit PinnedBudget(uint64_t byte_count_max)
      : byte_count_max_(byte_count_max) {}

  // The budget of all rings of CUDA's devices: at most 1 GiB, and at most a
  // tenth of the memory that this process may use.
  static const std::shared_ptr<PinnedBudget>& OfProcess();

  uint64_t byte_count_max() const { return byte_count_max_; }

 private:
  friend class PinnedRing;
  void Add(PinnedRing* ring);
  void Remove(PinnedRing* ring);
  // Takes a slot's bytes for `ring`, if need be from the spare slots of others.
  // Returns false, and leaves those as they are, if that is not enough; with
  // `is_first`, takes the bytes anyway.
  bool Take(PinnedRing* ring, bool is_first);
  void GiveBack(uint64_t byte_count);
  // These are called with the mutex held.
  bool HasRoom(uint64_t byte_count) const;
  uint64_t SpareBytesOfOthers(const PinnedRing* ring) const;

  const uint64_t byte_count_max_;
  std::mutex mutex_;
  uint64_t byte_count_ = 0;  // more than the maximum by first slots at most
  std::vector<PinnedRing*> rings_;
};

class PinnedRing {
 private:
  using Clock = std::chrono::steady_clock;

 public:
  // `device` is the one that CopyToHost copies from, and one that the program
  // uses already. Without a budget, the ring has one of its own.
  PinnedRing(DeviceDriver& driver, int device, const PinnedRingOptions& options,
             std::shared_ptr<PinnedBudget> budget = nullptr);
  ~PinnedRing();
  PinnedRing(const PinnedRing&) = delete;
  PinnedRing& operator=(const PinnedRing&) = delete;

  // One slot, which goes back to the ring when this is destroyed. If its copies
  // have not ended, which happens only after an error, the ring keeps it from
  // other callers until they have.
  class Slot {
   public:
    Slot(Slot&&) noexcept;
    Slot& operator=(Slot&&) = delete;
    ~Slot();

    char* data() const;
    // Begins a copy into data(). The slot keeps `owner`, which keeps the
    // device's memory, until the copy has ended. REQUIRES: copy.host is inside
    // data().
    Status CopyToHost(const RowCopy& copy, std::shared_ptr<const void> owner);
    // The same in the other direction, to any device.
    Status CopyToDevice(int device, const RowCopy& copy,
                        std::shared_ptr<const void> owner);
    // Begins a copy between devices after the slot's earlier copies to
    // `device`, which has one of its sides.
    Status CopyOnDevices(int device, const DeviceRowCopy& copy,
                         std::shared_ptr<const void> owner);
    // Lets `begin` queue other work on the slot's stream of a device. The slot
    // keeps the owners as above.
    Status Queue(int device, std::vector<std::shared_ptr<const void>> owners,
                 const std::function<Status(DeviceStream)>& begin);
    // Waits until all work of the slot has ended, also if some has failed.
    // Returns the first failure.
    Status Wait();

   private:
    friend class PinnedRing;
    struct Track;
    struct Memory;
    Slot(PinnedRing* ring, std::unique_ptr<Memory> memory);

    // Returns the slot's track on a device, for a copy that begins now.
    Result<Track*> Begin(int device, std::shared_ptr<const void> owner);
    Status WaitForTrack(Track& track, Clock::time_point deadline);

    PinnedRing* ring_;
    std::unique_ptr<Memory> memory_;
  };

  // Takes a slot, or waits until another caller gives one back. REQUIRES: the
  // calling thread has no other slot.
  Result<Slot> Take();
  // Waits until an event of the program's work has passed, or `cancel` is
  // cancelled.
  Status WaitFor(int device, DeviceEvent event,
                 const CancelToken& cancel = CancelToken()) const;

  DeviceDriver& driver() const { return driver_; }
  int device() const { return device_; }
  uint64_t slot_bytes() const { return options_.slot_bytes; }

 private:
  friend class PinnedBudget;

  Clock::time_point Deadline(Clock::time_point since = Clock::now()) const;
  Status WaitUntil(int device, DeviceEvent event, Clock::time_point deadline,
                   const CancelToken& cancel) const;
  // Returns null if the budget has no room. `is_first`: the ring has no other.
  Result<std::unique_ptr<Slot::Memory>> MakeSlot(bool is_first,
                                                 bool may_be_ordinary);
  Result<std::unique_ptr<Slot::Memory>> AllocateSlot(bool may_be_ordinary);
  uint64_t SpareBytes();
  // Destroys a spare slot, for another ring; returns whether there was one.
  bool DestroySpare();
  void Destroy(Slot::Memory& memory);
  void GiveBack(std::unique_ptr<Slot::Memory> memory);
  // Called with the mutex held.
  void AddSpare(std::unique_ptr<Slot::Memory> memory);
  // Keeps memory that a copy may still write to, because the device cannot say
  // that the copy has ended.
  static void KeepForever(std::unique_ptr<Slot::Memory> memory);
  // Moves the busy slots whose copies have ended to the spare ones; returns the
  // device's error if it cannot say. Called with the mutex held.
  Status ReclaimBusy();
  Result<bool> HaveEnded(Slot::Memory& memory);
  Status LateError(int device) const;

  DeviceDriver& driver_;
  const int device_;
  const PinnedRingOptions options_;
  const std::shared_ptr<PinnedBudget> budget_;
  std::atomic<bool> is_pinned_{true};  // until the system refuses it
  std::mutex pinning_;                 // held while the system is asked
  bool has_pinned_ = false;            // whether it ever granted any

  std::mutex mutex_;
  std::condition_variable given_back_;
  std::vector<std::unique_ptr<Slot::Memory>> spare_;
  Clock::time_point last_spare_;  // when a slot last became spare
  std::vector<std::unique_ptr<Slot::Memory>> busy_;  // copies may still write
  uint64_t slot_count_ = 0;      // with those that are taken, or lost
  uint64_t slot_count_max_ = 0;  // fewer once the system refuses memory
  uint64_t lost_count_ = 0;
};

}  // namespace holdfast
