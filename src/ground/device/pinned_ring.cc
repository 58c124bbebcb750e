#include "ground/device/pinned_ring.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>

#include "ground/base/status_macros.h"
#include "ground/device/host_memory.h"

namespace holdfast {
namespace {

// A copy of a slot takes 150 us at 53 GB/s: a shorter sleep would only use the
// processor that another thread encodes with.
constexpr std::chrono::microseconds kPollInterval{20};
// How often a caller without a slot looks for busy slots whose copies ended.
constexpr std::chrono::milliseconds kReclaimInterval{1};
constexpr std::chrono::milliseconds kLookInterval{1000};

}  // namespace

struct PinnedRing::Slot::Memory {
  char* pinned = nullptr;
  Buffer pageable;  // used if pinned is null
  DeviceStream stream = 0;
  DeviceEvent event = 0;
  bool is_pending = false;  // copies were begun, and nobody has waited since
  std::shared_ptr<const void> owner;  // of the memory that copies read

  char* data() { return pinned != nullptr ? pinned : pageable.data(); }
};

void PinnedRing::KeepForever(std::unique_ptr<Slot::Memory> memory) {
  static auto& mutex = *new std::mutex();
  static auto& kept = *new std::vector<std::unique_ptr<Slot::Memory>>();
  const std::lock_guard lock(mutex);
  kept.push_back(std::move(memory));
}

void PinnedBudget::Add(PinnedRing* ring) {
  const std::lock_guard lock(mutex_);
  rings_.push_back(ring);
}

void PinnedBudget::Remove(PinnedRing* ring) {
  const std::lock_guard lock(mutex_);
  std::erase(rings_, ring);
}

bool PinnedBudget::Take(PinnedRing* ring, bool is_first) {
  const uint64_t wanted = ring->slot_bytes();
  const std::lock_guard lock(mutex_);
  for (PinnedRing* const other : rings_) {
    while (byte_count_ + wanted > byte_count_max_ && other != ring &&
           other->DestroySpare()) {
      byte_count_ -= other->slot_bytes();
    }
  }
  if (byte_count_ + wanted > byte_count_max_ && !is_first) return false;
  byte_count_ += wanted;
  return true;
}

void PinnedBudget::GiveBack(uint64_t byte_count) {
  const std::lock_guard lock(mutex_);
  byte_count_ -= byte_count;
}

PinnedRingOptions PinnedRing::DefaultOptions() {
  PinnedRingOptions options;
  options.byte_count_max =
      std::min(options.byte_count_max, HostMemoryBytes() / 10);
  return options;
}

PinnedRing::PinnedRing(DeviceDriver& driver, int device,
                       const PinnedRingOptions& options,
                       std::shared_ptr<PinnedBudget> budget)
    : driver_(driver),
      device_(device),
      options_(options),
      budget_(budget != nullptr
                  ? std::move(budget)
                  : std::make_shared<PinnedBudget>(options.byte_count_max)),
      slot_count_max_(
          std::max<uint64_t>(1, options.byte_count_max / options.slot_bytes)) {
  budget_->Add(this);
}

PinnedRing::~PinnedRing() {
  budget_->Remove(this);
  (void)ReclaimBusy();
  for (const auto& memory : spare_) {
    Destroy(*memory);
    budget_->GiveBack(options_.slot_bytes);
  }
  for (auto& memory : busy_) KeepForever(std::move(memory));
}

bool PinnedRing::DestroySpare() {
  std::unique_ptr<Slot::Memory> memory;
  {
    const std::lock_guard lock(mutex_);
    (void)ReclaimBusy();
    if (spare_.empty()) return false;
    memory = std::move(spare_.back());
    spare_.pop_back();
    --slot_count_;
  }
  Destroy(*memory);
  return true;
}

void PinnedRing::Destroy(Slot::Memory& memory) {
  if (memory.event != 0) driver_.DestroyEvent(device_, memory.event);
  if (memory.stream != 0) driver_.DestroyStream(device_, memory.stream);
  if (memory.pinned != nullptr) driver_.FreePinned(device_, memory.pinned);
}

Result<std::unique_ptr<PinnedRing::Slot::Memory>> PinnedRing::MakeSlot(
    bool is_first) {
  auto memory = std::make_unique<Slot::Memory>();
  const auto make = [&]() -> Status {
    if (is_pinned_) {
      const Result<char*> pinned =
          driver_.AllocatePinned(device_, options_.slot_bytes);
      if (pinned.ok()) {
        memory->pinned = *pinned;
      } else if (pinned.status().code() != StatusCode::kResourceExhausted ||
                 !is_first) {
        return pinned.status();
      } else if (is_pinned_.exchange(false)) {
        std::fprintf(stderr,
                     "holdfast: %s; copies from device %d use ordinary memory, "
                     "and are slower\n",
                     std::string(pinned.status().message()).c_str(), device_);
      }
    }
    if (memory->pinned == nullptr) {
      memory->pageable = Buffer::TryAllocate(options_.slot_bytes);
      if (memory->pageable.data() == nullptr) {
        return ResourceExhaustedError(
            "no memory for a buffer of " + std::to_string(options_.slot_bytes) +
            " bytes for copies from device " + std::to_string(device_));
      }
    }
    HF_ASSIGN_OR_RETURN(memory->stream, driver_.CreateStream(device_));
    HF_ASSIGN_OR_RETURN(memory->event, driver_.CreateEvent(device_));
    return Status();
  };
  const Status made = make();
  if (made.ok()) return memory;
  Destroy(*memory);
  budget_->GiveBack(options_.slot_bytes);
  return made;
}

Result<PinnedRing::Slot> PinnedRing::Take() {
  const auto deadline =
      Clock::now() + std::chrono::seconds(options_.wait_seconds_max);
  std::unique_lock lock(mutex_);
  for (;;) {
    Status reclaimed;
    if (spare_.empty()) reclaimed = ReclaimBusy();
    if (!spare_.empty()) {
      Slot slot(this, std::move(spare_.back()));
      spare_.pop_back();
      return slot;
    }
    if (lost_count_ >= slot_count_max_) {
      return UnavailableError(std::string(driver_.name()) + ": device " +
                              std::to_string(device_) +
                              " has failed in the middle of copies");
    }
    bool is_refused = false;
    if (slot_count_ < slot_count_max_) {
      const bool is_first = slot_count_++ == lost_count_;
      lock.unlock();
      is_refused = !budget_->Take(this, is_first);
      auto memory =
          is_refused ? std::unique_ptr<Slot::Memory>() : MakeSlot(is_first);
      if (memory.ok() && !is_refused) return Slot(this, *std::move(memory));
      lock.lock();
      --slot_count_;
      if (!memory.ok()) {
        given_back_.notify_all();
        const bool has_others = slot_count_ > lost_count_;
        if (memory.status().code() != StatusCode::kResourceExhausted ||
            !has_others) {
          return memory.status();
        }
        slot_count_max_ = slot_count_;
        continue;
      }
    }
    HF_RETURN_IF_ERROR(reclaimed);
    if (Clock::now() >= deadline) return LateError();
    // Other rings do not say when they give back what they share.
    given_back_.wait_for(
        lock, busy_.empty() && !is_refused ? kLookInterval : kReclaimInterval);
  }
}

Status PinnedRing::ReclaimBusy() {
  Status failure;
  for (size_t i = 0; i < busy_.size();) {
    const auto has_passed = driver_.HasPassed(device_, busy_[i]->event);
    if (!has_passed.ok()) failure = has_passed.status();
    if (!has_passed.ok() || !*has_passed) {
      ++i;
      continue;
    }
    busy_[i]->is_pending = false;
    busy_[i]->owner.reset();
    spare_.push_back(std::move(busy_[i]));
    busy_.erase(busy_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return failure;
}

void PinnedRing::GiveBack(std::unique_ptr<Slot::Memory> memory) {
  const std::lock_guard lock(mutex_);
  if (!memory->is_pending) {
    spare_.push_back(std::move(memory));
  } else if (driver_.Record(device_, memory->event, memory->stream).ok()) {
    busy_.push_back(std::move(memory));
  } else {
    KeepForever(std::move(memory));
    ++lost_count_;
  }
  // All callers look again: one that is woken may give up.
  given_back_.notify_all();
}

Status PinnedRing::WaitFor(DeviceEvent event) const {
  const auto deadline =
      Clock::now() + std::chrono::seconds(options_.wait_seconds_max);
  for (;;) {
    HF_ASSIGN_OR_RETURN(const bool has_passed,
                        driver_.HasPassed(device_, event));
    if (has_passed) return Status();
    if (Clock::now() >= deadline) return LateError();
    std::this_thread::sleep_for(kPollInterval);
  }
}

Status PinnedRing::LateError() const {
  return DeadlineExceededError(
      std::string(driver_.name()) + ": device " + std::to_string(device_) +
      " has not finished a copy in " +
      std::to_string(options_.wait_seconds_max) +
      " s: the work that the program queued before it does not end");
}

PinnedRing::Slot::Slot(PinnedRing* ring, std::unique_ptr<Memory> memory)
    : ring_(ring), memory_(std::move(memory)) {}

PinnedRing::Slot::Slot(Slot&&) noexcept = default;

PinnedRing::Slot::~Slot() {
  if (memory_ != nullptr) ring_->GiveBack(std::move(memory_));
}

char* PinnedRing::Slot::data() const { return memory_->data(); }

Status PinnedRing::Slot::CopyToHost(const RowCopy& copy,
                                    std::shared_ptr<const void> owner) {
  // Pending even if the call fails, because part of the copy may have begun.
  memory_->is_pending = true;
  memory_->owner = std::move(owner);
  return ring_->driver_.CopyToHost(ring_->device_, copy, memory_->stream);
}

Status PinnedRing::Slot::Wait() {
  HF_RETURN_IF_ERROR(
      ring_->driver_.Record(ring_->device_, memory_->event, memory_->stream));
  HF_RETURN_IF_ERROR(ring_->WaitFor(memory_->event));
  memory_->is_pending = false;
  memory_->owner.reset();
  return Status();
}

}  // namespace holdfast
