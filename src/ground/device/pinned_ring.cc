#include "ground/device/pinned_ring.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>

#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

// A copy of a slot takes 150 us at 53 GB/s: a shorter sleep would only use the
// processor that another thread encodes with.
constexpr std::chrono::microseconds kPollInterval{20};
// How often a caller without a slot looks for busy slots whose copies ended.
constexpr std::chrono::milliseconds kReclaimInterval{1};
constexpr std::chrono::milliseconds kLookInterval{1000};

}  // namespace

// The copies between a slot and one device.
struct PinnedRing::Slot::Track {
  int device = 0;
  DeviceStream stream = 0;
  DeviceEvent event = 0;
  bool is_pending = false;  // copies were begun, and nobody has waited since
};

struct PinnedRing::Slot::Memory {
  char* pinned = nullptr;
  Buffer pageable;  // used if pinned is null
  std::vector<Track> tracks;
  // They keep the memory on devices that pending copies use.
  std::vector<std::shared_ptr<const void>> owners;

  char* data() { return pinned != nullptr ? pinned : pageable.data(); }
  bool is_pending() const {
    return std::ranges::any_of(tracks, &Track::is_pending);
  }
};

void PinnedRing::KeepForever(std::unique_ptr<Slot::Memory> memory) {
  static auto& mutex = *new std::mutex();
  static auto& kept = *new std::vector<std::unique_ptr<Slot::Memory>>();
  const std::lock_guard lock(mutex);
  kept.push_back(std::move(memory));
}

PinnedRingOptions PinnedRing::DefaultOptions() {
  PinnedRingOptions options;
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  if (pages > 0 && page_bytes > 0) {
    const uint64_t tenth =
        static_cast<uint64_t>(pages) / 10 * static_cast<uint64_t>(page_bytes);
    options.byte_count_max = std::min(options.byte_count_max, tenth);
  }
  return options;
}

PinnedRing::PinnedRing(DeviceDriver& driver, int device,
                       const PinnedRingOptions& options)
    : driver_(driver),
      device_(device),
      options_(options),
      slot_count_max_(
          std::max<uint64_t>(1, options.byte_count_max / options.slot_bytes)) {}

PinnedRing::~PinnedRing() {
  (void)ReclaimBusy();
  for (const auto& memory : spare_) Destroy(*memory);
  for (auto& memory : busy_) KeepForever(std::move(memory));
}

void PinnedRing::Destroy(Slot::Memory& memory) {
  for (const Slot::Track& track : memory.tracks) {
    driver_.DestroyEvent(track.device, track.event);
    driver_.DestroyStream(track.device, track.stream);
  }
  if (memory.pinned != nullptr) driver_.FreePinned(device_, memory.pinned);
}

Result<std::unique_ptr<PinnedRing::Slot::Memory>> PinnedRing::MakeSlot() {
  auto memory = std::make_unique<Slot::Memory>();
  if (is_pinned_) {
    // One thread at a time, so that a refusal comes after all slots that there
    // is memory for.
    const std::lock_guard lock(pinning_);
    const Result<char*> pinned =
        driver_.AllocatePinned(device_, options_.slot_bytes);
    if (pinned.ok()) {
      has_pinned_ = true;
      memory->pinned = *pinned;
      return memory;
    }
    if (pinned.status().code() != StatusCode::kResourceExhausted ||
        has_pinned_) {
      return pinned.status();
    }
    if (is_pinned_.exchange(false)) {
      std::fprintf(stderr,
                   "holdfast: %s; copies between device %d and the host use "
                   "ordinary memory, and are slower\n",
                   std::string(pinned.status().message()).c_str(), device_);
    }
  }
  memory->pageable = Buffer::TryAllocate(options_.slot_bytes);
  if (memory->pageable.data() != nullptr) return memory;
  return ResourceExhaustedError("no memory for a buffer of " +
                                std::to_string(options_.slot_bytes) +
                                " bytes for copies between device " +
                                std::to_string(device_) + " and the host");
}

Result<PinnedRing::Slot> PinnedRing::Take() {
  const Clock::time_point deadline = Deadline();
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
    if (slot_count_ < slot_count_max_) {
      ++slot_count_;
      lock.unlock();
      auto memory = MakeSlot();
      if (memory.ok()) return Slot(this, *std::move(memory));
      lock.lock();
      --slot_count_;
      given_back_.notify_all();
      const bool has_others = slot_count_ > lost_count_;
      if (memory.status().code() != StatusCode::kResourceExhausted ||
          !has_others) {
        return memory.status();
      }
      slot_count_max_ = slot_count_;
      continue;
    }
    HF_RETURN_IF_ERROR(reclaimed);
    if (Clock::now() >= deadline) return LateError(device_);
    given_back_.wait_for(lock,
                         busy_.empty() ? kLookInterval : kReclaimInterval);
  }
}

Result<bool> PinnedRing::HaveEnded(Slot::Memory& memory) {
  for (Slot::Track& track : memory.tracks) {
    if (!track.is_pending) continue;
    HF_ASSIGN_OR_RETURN(const bool has_passed,
                        driver_.HasPassed(track.device, track.event));
    if (!has_passed) return false;
    track.is_pending = false;
  }
  memory.owners.clear();
  return true;
}

Status PinnedRing::ReclaimBusy() {
  Status failure;
  for (size_t i = 0; i < busy_.size();) {
    const auto have_ended = HaveEnded(*busy_[i]);
    if (!have_ended.ok()) failure = have_ended.status();
    if (!have_ended.ok() || !*have_ended) {
      ++i;
      continue;
    }
    spare_.push_back(std::move(busy_[i]));
    busy_.erase(busy_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return failure;
}

void PinnedRing::GiveBack(std::unique_ptr<Slot::Memory> memory) {
  const std::lock_guard lock(mutex_);
  const bool are_recorded =
      std::ranges::all_of(memory->tracks, [&](const Slot::Track& track) {
        return !track.is_pending ||
               driver_.Record(track.device, track.event, track.stream).ok();
      });
  if (!memory->is_pending()) {
    spare_.push_back(std::move(memory));
  } else if (are_recorded) {
    busy_.push_back(std::move(memory));
  } else {
    KeepForever(std::move(memory));
    ++lost_count_;
  }
  // All callers look again: one that is woken may give up.
  given_back_.notify_all();
}

PinnedRing::Clock::time_point PinnedRing::Deadline() const {
  return Clock::now() + std::chrono::seconds(options_.wait_seconds_max);
}

Status PinnedRing::WaitFor(int device, DeviceEvent event,
                           const CancelToken& cancel) const {
  return WaitUntil(device, event, Deadline(), cancel);
}

Status PinnedRing::WaitUntil(int device, DeviceEvent event,
                             Clock::time_point deadline,
                             const CancelToken& cancel) const {
  for (;;) {
    HF_ASSIGN_OR_RETURN(const bool has_passed,
                        driver_.HasPassed(device, event));
    if (has_passed) return Status();
    HF_RETURN_IF_ERROR(cancel.Check());
    if (Clock::now() >= deadline) return LateError(device);
    std::this_thread::sleep_for(kPollInterval);
  }
}

Status PinnedRing::LateError(int device) const {
  return DeadlineExceededError(
      std::string(driver_.name()) + ": device " + std::to_string(device) +
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

Result<PinnedRing::Slot::Track*> PinnedRing::Slot::Begin(
    int device, std::shared_ptr<const void> owner) {
  auto track = std::ranges::find(memory_->tracks, device, &Track::device);
  if (track == memory_->tracks.end()) {
    DeviceDriver& driver = ring_->driver_;
    HF_ASSIGN_OR_RETURN(const DeviceStream stream, driver.CreateStream(device));
    const Result<DeviceEvent> event = driver.CreateEvent(device);
    if (!event.ok()) {
      driver.DestroyStream(device, stream);
      return event.status();
    }
    memory_->tracks.push_back({device, stream, *event});
    track = std::prev(memory_->tracks.end());
  }
  std::vector<std::shared_ptr<const void>>& owners = memory_->owners;
  if (owner != nullptr && (owners.empty() || owners.back() != owner)) {
    owners.push_back(std::move(owner));
  }
  // Pending even if the copy fails, because part of it may have begun.
  track->is_pending = true;
  return &*track;
}

Status PinnedRing::Slot::CopyToHost(const RowCopy& copy,
                                    std::shared_ptr<const void> owner) {
  const int device = ring_->device_;
  HF_ASSIGN_OR_RETURN(Track* const track, Begin(device, std::move(owner)));
  return ring_->driver_.CopyToHost(device, copy, track->stream);
}

Status PinnedRing::Slot::CopyToDevice(int device, const RowCopy& copy,
                                      std::shared_ptr<const void> owner) {
  HF_ASSIGN_OR_RETURN(Track* const track, Begin(device, std::move(owner)));
  return ring_->driver_.CopyToDevice(device, copy, track->stream);
}

Status PinnedRing::Slot::CopyOnDevices(int device, const DeviceRowCopy& copy,
                                       std::shared_ptr<const void> owner) {
  HF_ASSIGN_OR_RETURN(Track* const track, Begin(device, std::move(owner)));
  return ring_->driver_.CopyOnDevices(device, copy, track->stream);
}

Status PinnedRing::Slot::Queue(
    int device, std::vector<std::shared_ptr<const void>> owners,
    const std::function<Status(DeviceStream)>& begin) {
  HF_ASSIGN_OR_RETURN(Track* const track, Begin(device, nullptr));
  for (auto& owner : owners) memory_->owners.push_back(std::move(owner));
  return begin(track->stream);
}

Status PinnedRing::Slot::WaitForTrack(Track& track,
                                      Clock::time_point deadline) {
  if (!track.is_pending) return Status();
  HF_RETURN_IF_ERROR(
      ring_->driver_.Record(track.device, track.event, track.stream));
  HF_RETURN_IF_ERROR(
      ring_->WaitUntil(track.device, track.event, deadline, CancelToken()));
  track.is_pending = false;
  return Status();
}

Status PinnedRing::Slot::Wait() {
  const Clock::time_point deadline = ring_->Deadline();
  Status failure;
  for (Track& track : memory_->tracks) {
    Status waited = WaitForTrack(track, deadline);
    if (failure.ok()) failure = std::move(waited);
  }
  if (!memory_->is_pending()) memory_->owners.clear();
  return failure;
}

}  // namespace holdfast
