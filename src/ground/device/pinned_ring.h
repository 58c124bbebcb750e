// PinnedRing: the page-locked memory through which copies between one device
// and the host pass.
//
// It has equal slots, each with a stream and an event of its own, so that
// copies through different slots run side by side. Slots are made when they are
// first needed, up to the bound, and kept for later calls. Rings may share a
// budget, and then take spare slots from each other. If the system
// refuses page-locked memory, the ring makes do with the slots that it has; if
// it has none, slots are ordinary memory, copies are slower, and stderr says so
// once.
//
// Thread-safety: any thread. Ownership: owns its slots; borrows the driver.
// Units: bytes. Errors: those of DeviceDriver; DeadlineExceeded (a copy did not
// end in time, because the work that the program queued before it does not).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "ground/base/bytes.h"
#include "ground/device/device_driver.h"

namespace holdfast {

struct PinnedRingOptions {
  uint64_t slot_bytes = uint64_t{8} << 20;
  uint64_t byte_count_max = uint64_t{1} << 30;
  // How long a caller waits: for a slot, a copy, or the program's work.
  int64_t wait_seconds_max = 600;
};

class PinnedRing;

// The bound of what several rings have together. Each may have one slot in any
// case, so that none waits for another that keeps its own.
// Thread-safety: any thread. Units: bytes.
class PinnedBudget {
 public:
  explicit PinnedBudget(uint64_t byte_count_max)
      : byte_count_max_(byte_count_max) {}

 private:
  friend class PinnedRing;
  void Add(PinnedRing* ring);
  void Remove(PinnedRing* ring);
  // Takes a slot's bytes for `ring`, if need be from another ring's spare
  // slots. Returns false if nothing is left; with `is_first`, takes them
  // anyway.
  bool Take(PinnedRing* ring, bool is_first);
  void GiveBack(uint64_t byte_count);

  const uint64_t byte_count_max_;
  std::mutex mutex_;  // locked before a ring's
  uint64_t byte_count_ = 0;
  std::vector<PinnedRing*> rings_;
};

class PinnedRing {
 public:
  // The options for this machine: at most 1 GiB, and at most a tenth of the
  // memory that this process may use.
  static PinnedRingOptions DefaultOptions();

  // Without a budget, the ring has one of its own.
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
    // Waits until all copies of the slot have ended.
    Status Wait();

   private:
    friend class PinnedRing;
    struct Memory;
    Slot(PinnedRing* ring, std::unique_ptr<Memory> memory);

    PinnedRing* ring_;
    std::unique_ptr<Memory> memory_;
  };

  // Takes a slot, or waits until another caller gives one back. REQUIRES: the
  // calling thread has no other slot.
  Result<Slot> Take();
  // Waits until an event of the program's work has passed.
  Status WaitFor(DeviceEvent event) const;

  DeviceDriver& driver() const { return driver_; }
  int device() const { return device_; }
  uint64_t slot_bytes() const { return options_.slot_bytes; }

 private:
  friend class PinnedBudget;
  using Clock = std::chrono::steady_clock;

  // Makes a slot whose bytes were taken from the budget.
  Result<std::unique_ptr<Slot::Memory>> MakeSlot(bool is_first);
  void Destroy(Slot::Memory& memory);
  // Destroys a spare slot, for another ring; returns whether there was one.
  bool DestroySpare();
  void GiveBack(std::unique_ptr<Slot::Memory> memory);
  // Keeps memory that a copy may still write to, because the device cannot say
  // that the copy has ended.
  static void KeepForever(std::unique_ptr<Slot::Memory> memory);
  // Moves the busy slots whose copies have ended to the spare ones; returns the
  // device's error if it cannot say. Called with the mutex held.
  Status ReclaimBusy();
  Status LateError() const;

  DeviceDriver& driver_;
  const int device_;
  const PinnedRingOptions options_;
  const std::shared_ptr<PinnedBudget> budget_;
  std::atomic<bool> is_pinned_{true};  // until the system refuses it

  std::mutex mutex_;
  std::condition_variable given_back_;
  std::vector<std::unique_ptr<Slot::Memory>> spare_;
  std::vector<std::unique_ptr<Slot::Memory>> busy_;  // copies may still write
  uint64_t slot_count_ = 0;      // with those that are taken, or lost
  uint64_t slot_count_max_ = 0;  // fewer once the system refuses memory
  uint64_t lost_count_ = 0;
};

}  // namespace holdfast
