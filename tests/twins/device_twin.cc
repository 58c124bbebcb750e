#include "twins/device_twin.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

constexpr uint64_t kAlignment = 256;
// Between two allocations, so that a copy beyond one is in none.
constexpr uint64_t kGapBytes = 4096;

}  // namespace

DeviceAddress DeviceTwin::Allocate(int device, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  const DeviceAddress address = next_address_;
  const uint64_t used = (bytes.size() + kAlignment - 1) / kAlignment;
  next_address_ += used * kAlignment + kGapBytes;
  allocations_[address] = {device, std::string(bytes)};
  return address;
}

void DeviceTwin::Free(DeviceAddress address) {
  const std::lock_guard lock(mutex_);
  allocations_.erase(address);
}

void DeviceTwin::Queue(int device, DeviceStream stream,
                       std::function<bool()> work) {
  const std::lock_guard lock(mutex_);
  StreamOf(device, stream).work.push_back(std::move(work));
}

// Called by queued work, with the mutex held.
void DeviceTwin::Write(DeviceAddress address, std::string_view bytes) {
  char* const at = Find(address, bytes.size());
  if (at != nullptr) std::memcpy(at, bytes.data(), bytes.size());
}

void DeviceTwin::FailCall(int call, Status status) {
  const std::lock_guard lock(mutex_);
  failing_call_ = call_count_ + call;
  failure_ = std::move(status);
}

void DeviceTwin::CutCopy(int copy) {
  const std::lock_guard lock(mutex_);
  copies_until_cut_ = copy;
}

std::vector<std::string> DeviceTwin::violations() const {
  const std::lock_guard lock(mutex_);
  return violations_;
}

uint64_t DeviceTwin::pinned_bytes() const {
  const std::lock_guard lock(mutex_);
  return pinned_bytes_;
}

uint64_t DeviceTwin::pinned_bytes_peak() const {
  const std::lock_guard lock(mutex_);
  return pinned_bytes_peak_;
}

int DeviceTwin::call_count() const {
  const std::lock_guard lock(mutex_);
  return call_count_;
}

size_t DeviceTwin::handle_count() const {
  const std::lock_guard lock(mutex_);
  const auto made = std::ranges::count_if(
      streams_, [](const auto& stream) { return stream.first.second != 0; });
  return events_.size() + static_cast<size_t>(made);
}

Status DeviceTwin::Begin() {
  ++call_count_;
  if (is_lost_) return UnavailableError("twin: the device is lost");
  if (call_count_ == failing_call_) return failure_;
  return Status();
}

Status DeviceTwin::CheckDevice(int device) const {
  if (device >= 0 && device < options_.device_count) return Status();
  return InvalidArgumentError("twin: device " + std::to_string(device));
}

DeviceTwin::Stream& DeviceTwin::StreamOf(int device, DeviceStream stream) {
  return streams_[{device, stream}];
}

Result<AddressInfo> DeviceTwin::Describe(DeviceAddress address) {
  const std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(Begin());
  auto after = allocations_.upper_bound(address);
  if (after != allocations_.begin()) {
    const auto& [begin, allocation] = *std::prev(after);
    if (address < begin + allocation.bytes.size()) {
      return AddressInfo{MemoryHome::kDevice, allocation.device, begin,
                         allocation.bytes.size()};
    }
  }
  return AddressInfo();
}

Result<char*> DeviceTwin::AllocatePinned(int device, uint64_t byte_count) {
  const std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(Begin());
  HF_RETURN_IF_ERROR(CheckDevice(device));
  if (byte_count > options_.pinned_bytes_max - pinned_bytes_) {
    return ResourceExhaustedError("twin: no pinned memory");
  }
  auto memory = std::make_unique<std::string>(byte_count, '\xee');
  char* const data = memory->data();
  pinned_[data] = std::move(memory);
  pinned_bytes_ += byte_count;
  pinned_bytes_peak_ = std::max(pinned_bytes_peak_, pinned_bytes_);
  return data;
}

void DeviceTwin::FreePinned(int, char* memory) {
  const std::lock_guard lock(mutex_);
  const auto at = pinned_.find(memory);
  if (at == pinned_.end()) {
    violations_.push_back("pinned memory is freed that is not allocated");
    return;
  }
  pinned_bytes_ -= at->second->size();
  pinned_.erase(at);
}

Result<DeviceStream> DeviceTwin::CreateStream(int device) {
  const std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(Begin());
  HF_RETURN_IF_ERROR(CheckDevice(device));
  const DeviceStream stream = next_handle_++;
  streams_[{device, stream}];
  return stream;
}

void DeviceTwin::DestroyStream(int device, DeviceStream stream) {
  const std::lock_guard lock(mutex_);
  if (streams_.erase({device, stream}) == 0) {
    violations_.push_back("a stream is destroyed twice");
  }
}

Result<DeviceEvent> DeviceTwin::CreateEvent(int device) {
  const std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(Begin());
  HF_RETURN_IF_ERROR(CheckDevice(device));
  const DeviceEvent event = next_handle_++;
  events_[event];
  return event;
}

void DeviceTwin::DestroyEvent(int, DeviceEvent event) {
  const std::lock_guard lock(mutex_);
  if (events_.erase(event) == 0) {
    violations_.push_back("an event is destroyed twice");
  }
}

Status DeviceTwin::Record(int device, DeviceEvent event, DeviceStream stream) {
  const std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(Begin());
  HF_RETURN_IF_ERROR(CheckDevice(device));
  const auto at = events_.find(event);
  if (at == events_.end()) return InvalidArgumentError("twin: no such event");
  const uint64_t number = ++at->second.recorded_count;
  Stream& queue = StreamOf(device, stream);
  queue.work.push_back([this, event, number, &queue] {
    const auto passed = events_.find(event);
    if (passed != events_.end()) {
      passed->second.passed_count = number;
      passed->second.failure = queue.failure;
    }
    return true;
  });
  return Status();
}

Result<bool> DeviceTwin::HasPassed(int device, DeviceEvent event) {
  const std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(Begin());
  HF_RETURN_IF_ERROR(CheckDevice(device));
  Poll();
  const auto at = events_.find(event);
  if (at == events_.end()) return InvalidArgumentError("twin: no such event");
  if (at->second.passed_count < at->second.recorded_count) return false;
  HF_RETURN_IF_ERROR(at->second.failure);
  return true;
}

void DeviceTwin::Poll() {
  for (auto& [key, stream] : streams_) {
    for (int i = 0; i < options_.operations_per_poll; ++i) {
      if (stream.work.empty()) break;
      if (!stream.work.front()()) break;
      stream.work.pop_front();
    }
  }
}

Status DeviceTwin::CopyToHost(int device, const RowCopy& copy,
                              DeviceStream stream) {
  const std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(Begin());
  HF_RETURN_IF_ERROR(CheckDevice(device));
  if (copy.row_count > 1 &&
      (copy.device_pitch < copy.row_bytes || copy.host_pitch < copy.row_bytes ||
       copy.device_pitch > kDevicePitchMax)) {
    return InvalidArgumentError("twin: a pitch that CUDA does not allow");
  }
  const bool is_cut = copies_until_cut_ > 0 && --copies_until_cut_ == 0;
  Stream& queue = StreamOf(device, stream);
  queue.work.push_back(
      [this, &queue, copy, is_cut] { return RunCopy(queue, copy, is_cut); });
  return Status();
}

bool DeviceTwin::RunCopy(Stream& stream, const RowCopy& copy, bool is_cut) {
  if (is_stalled_) return false;
  if (!stream.failure.ok()) return true;
  for (uint64_t row = 0; row < copy.row_count; ++row) {
    if (is_cut && row * 2 >= copy.row_count) break;
    const char* const from =
        Find(copy.device + row * copy.device_pitch, copy.row_bytes);
    char* const to = copy.host + row * copy.host_pitch;
    if (!IsPinned(to, copy.row_bytes) && !options_.allows_pageable) {
      violations_.push_back("a copy to host memory that is not pinned");
      continue;
    }
    const uint64_t byte_count = is_cut ? copy.row_bytes / 2 : copy.row_bytes;
    if (from != nullptr) std::memcpy(to, from, byte_count);
  }
  if (is_cut) stream.failure = UnavailableError("twin: a copy was cut off");
  return true;
}

char* DeviceTwin::Find(DeviceAddress address, uint64_t byte_count) {
  const auto after = allocations_.upper_bound(address);
  if (after != allocations_.begin()) {
    auto& [begin, allocation] = *std::prev(after);
    const uint64_t offset = address - begin;
    if (offset <= allocation.bytes.size() &&
        byte_count <= allocation.bytes.size() - offset) {
      return allocation.bytes.data() + offset;
    }
  }
  violations_.push_back("a copy of " + std::to_string(byte_count) +
                        " bytes at " + std::to_string(address) +
                        ", which are in no allocation");
  return nullptr;
}

bool DeviceTwin::IsPinned(const char* memory, uint64_t byte_count) const {
  const auto after = pinned_.upper_bound(memory);
  if (after == pinned_.begin()) return false;
  const std::string& pinned = *std::prev(after)->second;
  return memory + byte_count <= pinned.data() + pinned.size();
}

}  // namespace holdfast
