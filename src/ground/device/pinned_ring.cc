#include "ground/device/pinned_ring.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>

#include "ground/base/status_macros.h"
#include "holdfast/detail/host_memory.h"

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

const std::shared_ptr<PinnedBudget>& PinnedBudget::OfProcess() {
  // Never destroyed: a leaf may outlive main.
  static const auto& budget = *new std::shared_ptr<PinnedBudget>(
      std::make_shared<PinnedBudget>(std::min(
          PinnedRingOptions().byte_count_max, HostMemoryBytes() / 10)));
  return budget;
}

void PinnedBudget::Add(PinnedRing* ring) {
  const std::lock_guard lock(mutex_);
  rings_.push_back(ring);
}

void PinnedBudget::Remove(PinnedRing* ring) {
  const std::lock_guard lock(mutex_);
  std::erase(rings_, ring);
}

bool PinnedBudget::HasRoom(uint64_t byte_count) const {
  return byte_count_ + byte_count <= byte_count_max_;
}

uint64_t PinnedBudget::SpareBytesOfOthers(const PinnedRing* ring,
                                          Owners& released) const {
  uint64_t byte_count = 0;
  for (PinnedRing* const other : rings_) {
    if (other != ring) byte_count += other->SpareBytes(released);
  }
  return byte_count;
}

bool PinnedBudget::Take(PinnedRing* ring, bool is_first) {
  const uint64_t wanted = ring->slot_bytes();
  Owners released;
  const std::lock_guard lock(mutex_);
  // Others do not lose slots for a slot that then does not fit.
  const bool may_fit =
      HasRoom(wanted) ||
      byte_count_ - SpareBytesOfOthers(ring, released) + wanted <=
          byte_count_max_;
  if (!may_fit && !is_first) return false;
  for (PinnedRing* const other : rings_) {
    while (!HasRoom(wanted) && other != ring && other->DestroySpare()) {
      byte_count_ -= other->slot_bytes();
    }
  }
  if (!HasRoom(wanted) && !is_first) return false;
  byte_count_ += wanted;
  return true;
}

void PinnedBudget::GiveBack(uint64_t byte_count) {
  const std::lock_guard lock(mutex_);
  byte_count_ -= byte_count;
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
      slot_count_max_(std::max<uint64_t>(
          1, budget_->byte_count_max() / options.slot_bytes)) {
  budget_->Add(this);
}

PinnedRing::~PinnedRing() {
  budget_->Remove(this);
  Owners released;
  (void)ReclaimBusy(released);
  for (const auto& memory : spare_) {
    Destroy(*memory);
    budget_->GiveBack(options_.slot_bytes);
  }
  for (auto& memory : busy_) KeepForever(std::move(memory));
}

uint64_t PinnedRing::SpareBytes(Owners& released) {
  const std::lock_guard lock(mutex_);
  (void)ReclaimBusy(released);
  return spare_.size() * options_.slot_bytes;
}

bool PinnedRing::DestroySpare() {
  std::unique_ptr<Slot::Memory> memory;
  {
    const std::lock_guard lock(mutex_);
    if (spare_.empty()) return false;
    memory = std::move(spare_.back());
    spare_.pop_back();
    --slot_count_;
  }
  Destroy(*memory);
  return true;
}

void PinnedRing::Destroy(Slot::Memory& memory) {
  for (const Slot::Track& track : memory.tracks) {
    driver_.DestroyEvent(track.device, track.event);
    driver_.DestroyStream(track.device, track.stream);
  }
  if (memory.pinned != nullptr) driver_.FreePinned(device_, memory.pinned);
}

Result<std::unique_ptr<PinnedRing::Slot::Memory>> PinnedRing::MakeSlot(
    bool is_first, bool may_be_ordinary) {
  if (!budget_->Take(this, is_first)) return std::unique_ptr<Slot::Memory>();
  auto memory = AllocateSlot(may_be_ordinary);
  if (!memory.ok()) budget_->GiveBack(options_.slot_bytes);
  return memory;
}

Result<std::unique_ptr<PinnedRing::Slot::Memory>> PinnedRing::AllocateSlot(
    bool may_be_ordinary) {
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
        (has_pinned_ && !may_be_ordinary)) {
      return pinned.status();
    }
    if (!has_pinned_ && is_pinned_.exchange(false)) {
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
  const Clock::time_point began = Clock::now();
  bool was_refused = false;  // by the system, without any other slot
  Owners released;
  std::unique_lock lock(mutex_);
  for (;;) {
    bool is_refused = false;  // by the budget
    Status reclaimed;
    if (spare_.empty()) reclaimed = ReclaimBusy(released);
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
      const bool is_first = slot_count_++ == lost_count_;
      lock.unlock();
      auto memory = MakeSlot(is_first, is_first && was_refused);
      is_refused = memory.ok() && *memory == nullptr;
      if (memory.ok() && !is_refused) return Slot(this, *std::move(memory));
      lock.lock();
      --slot_count_;
      if (!is_refused) {
        given_back_.notify_all();
        const bool has_others = slot_count_ > lost_count_;
        if (memory.status().code() != StatusCode::kResourceExhausted ||
            (!has_others && was_refused)) {
          return memory.status();
        }
        // Other rings may have all that the system grants. Then a ring without
        // any slot has one in ordinary memory.
        was_refused = !has_others;
        if (has_others) slot_count_max_ = slot_count_;
        continue;
      }
    }
    HF_RETURN_IF_ERROR(reclaimed);
    // While others give slots back, the device is not late.
    if (Clock::now() >= Deadline(std::max(began, last_spare_))) {
      return LateError(device_);
    }
    // Other rings do not say when they give back what they share.
    given_back_.wait_for(
        lock, busy_.empty() && !is_refused ? kLookInterval : kReclaimInterval);
  }
}

Result<bool> PinnedRing::HaveEnded(Slot::Memory& memory, Owners& released) {
  for (Slot::Track& track : memory.tracks) {
    if (!track.is_pending) continue;
    HF_ASSIGN_OR_RETURN(const bool has_passed,
                        driver_.HasPassed(track.device, track.event));
    if (!has_passed) return false;
    track.is_pending = false;
  }
  for (auto& owner : memory.owners) released.push_back(std::move(owner));
  memory.owners.clear();
  return true;
}

Status PinnedRing::ReclaimBusy(Owners& released) {
  Status failure;
  for (size_t i = 0; i < busy_.size();) {
    const auto have_ended = HaveEnded(*busy_[i], released);
    if (!have_ended.ok()) failure = have_ended.status();
    if (!have_ended.ok() || !*have_ended) {
      ++i;
      continue;
    }
    AddSpare(std::move(busy_[i]));
    busy_.erase(busy_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return failure;
}

void PinnedRing::AddSpare(std::unique_ptr<Slot::Memory> memory) {
  spare_.push_back(std::move(memory));
  last_spare_ = Clock::now();
}

void PinnedRing::GiveBack(std::unique_ptr<Slot::Memory> memory) {
  const std::lock_guard lock(mutex_);
  const bool are_recorded =
      std::ranges::all_of(memory->tracks, [&](const Slot::Track& track) {
        return !track.is_pending ||
               driver_.Record(track.device, track.event, track.stream).ok();
      });
  if (!memory->is_pending()) {
    AddSpare(std::move(memory));
  } else if (are_recorded) {
    busy_.push_back(std::move(memory));
  } else {
    KeepForever(std::move(memory));
    ++lost_count_;
  }
  // All callers look again: one that is woken may give up.
  given_back_.notify_all();
}

PinnedRing::Clock::time_point PinnedRing::Deadline(
    Clock::time_point since) const {
  return since + std::chrono::seconds(options_.wait_seconds_max);
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
