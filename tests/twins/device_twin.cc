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
// The device of streams that were destroyed, which still end their work.
constexpr int kDestroyed = -1;

Status CheckPitches(uint64_t row_count, uint64_t row_bytes,
                    uint64_t first_pitch, uint64_t second_pitch) {
  const bool is_allowed =
      row_count <= 1 ||
      (first_pitch >= row_bytes && second_pitch >= row_bytes &&
       first_pitch <= kDevicePitchMax && second_pitch <= kDevicePitchMax);
  if (is_allowed) return Status();
  return InvalidArgumentError("twin: a pitch that CUDA does not allow");
}

}  // namespace

DeviceAddress DeviceTwin::Allocate(int device, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  return Add(device, std::string(bytes));
}

void DeviceTwin::Free(DeviceAddress address) {
  const std::lock_guard lock(mutex_);
  Remove(address);
}

// Called with the mutex held.
DeviceAddress DeviceTwin::Add(int device, std::string bytes) {
  const DeviceAddress address = next_address_;
  const uint64_t used = (bytes.size() + kAlignment - 1) / kAlignment;
  next_address_ += used * kAlignment + kGapBytes;
  device_bytes_[device] += bytes.size();
  device_bytes_peak_[device] =
      std::max(device_bytes_peak_[device], device_bytes_[device]);
  allocations_[address] = {device, std::move(bytes)};
  return address;
}

// Called with the mutex held.
void DeviceTwin::Remove(DeviceAddress address) {
  const auto at = allocations_.find(address);
  if (at == allocations_.end()) {
    violations_.push_back("device memory is freed that is not allocated");
    return;
  }
  device_bytes_[at->second.device] -= at->second.bytes.size();
  allocations_.erase(at);
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

std::string DeviceTwin::Read(DeviceAddress address, uint64_t byte_count) {
  const std::lock_guard lock(mutex_);
  const char* const at = Find(address, byte_count);
  return at == nullptr ? std::string() : std::string(at, byte_count);
}

void DeviceTwin::RunAll() {
  const std::lock_guard lock(mutex_);
  const auto left = [this] {
    size_t count = 0;
    for (const auto& stream : streams_) count += stream.second.work.size();
    return count;
  };
  for (size_t before = left() + 1; left() < before;) {
    before = left();
    Poll();
  }
}

void DeviceTwin::AddKernel(std::string name, HostKernel kernel) {
  const std::lock_guard lock(mutex_);
  kernels_by_name_[std::move(name)] = std::move(kernel);
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

void DeviceTwin::LoseAt(int call) {
  const std::lock_guard lock(mutex_);
  losing_call_ = call_count_ + call;
}

void DeviceTwin::Recover() {
  const std::lock_guard lock(mutex_);
  failing_call_ = 0;
  losing_call_ = 0;
  copies_until_cut_ = 0;
  is_lost_ = false;
  is_stalled_ = false;
  for (auto& [key, stream] : streams_) stream.failure = Status();
  for (auto& [key, event] : events_) event.failure = Status();
  violations_.clear();
  pinned_bytes_peak_ = pinned_bytes_;
  device_bytes_peak_ = device_bytes_;
}

void DeviceTwin::SetOptions(const Options& options) {
  const std::lock_guard lock(mutex_);
  options_ = options;
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

uint64_t DeviceTwin::device_bytes(int device) const {
  const std::lock_guard lock(mutex_);
  const auto at = device_bytes_.find(device);
  return at == device_bytes_.end() ? 0 : at->second;
}

uint64_t DeviceTwin::device_bytes_peak(int device) const {
  const std::lock_guard lock(mutex_);
  const auto at = device_bytes_peak_.find(device);
  return at == device_bytes_peak_.end() ? 0 : at->second;
}

uint64_t DeviceTwin::copied_to_device_bytes() const {
  const std::lock_guard lock(mutex_);
  return copied_to_device_bytes_;
}

int DeviceTwin::call_count() const {
  const std::lock_guard lock(mutex_);
  return call_count_;
}

size_t DeviceTwin::handle_count() const {
  const std::lock_guard lock(mutex_);
  const auto made = std::ranges::count_if(streams_, [](const auto& stream) {
    const auto [device, handle] = stream.first;
    return device != kDestroyed && handle != 0;
  });
  return events_.size() + static_cast<size_t>(made);
}

Status DeviceTwin::Begin() {
  if (++call_count_ == losing_call_) is_lost_ = true;
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
  if (IsPinned(reinterpret_cast<const char*>(address), 1)) {
    return AddressInfo{.home = MemoryHome::kPinned};
  }
  return AddressInfo();
}

Result<DeviceAddress> DeviceTwin::AllocateDevice(int device,
                                                 uint64_t byte_count) {
  const std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(Begin());
  HF_RETURN_IF_ERROR(CheckDevice(device));
  if (byte_count == 0) return InvalidArgumentError("twin: no bytes");
  if (byte_count > options_.device_bytes_max - device_bytes_[device]) {
    return ResourceExhaustedError("twin: device " + std::to_string(device) +
                                  " has no room");
  }
  return Add(device, std::string(byte_count, '\xdd'));
}

void DeviceTwin::FreeDevice(int, DeviceAddress memory) {
  const std::lock_guard lock(mutex_);
  Remove(memory);
}

Result<DeviceSpace> DeviceTwin::Space(int device) {
  const std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(Begin());
  HF_RETURN_IF_ERROR(CheckDevice(device));
  return DeviceSpace{options_.device_bytes_max - device_bytes_[device],
                     options_.device_bytes_max};
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
  auto destroyed = streams_.extract({device, stream});
  if (destroyed.empty()) {
    violations_.push_back("a stream is destroyed twice");
    return;
  }
  if (destroyed.mapped().work.empty()) return;
  destroyed.key().first = kDestroyed;
  streams_.insert(std::move(destroyed));
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
  HF_RETURN_IF_ERROR(CheckPitches(copy.row_count, copy.row_bytes,
                                  copy.device_pitch, copy.host_pitch));
  return QueueCopy(device, stream, copy.row_bytes, copy.row_count,
                   [this, copy](uint64_t row, uint64_t byte_count) {
                     CopyRow(copy, /*to_host=*/true, row, byte_count);
                   });
}

Status DeviceTwin::CopyToDevice(int device, const RowCopy& copy,
                                DeviceStream stream) {
  const std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(Begin());
  HF_RETURN_IF_ERROR(CheckPitches(copy.row_count, copy.row_bytes,
                                  copy.device_pitch, copy.host_pitch));
  copied_to_device_bytes_ += copy.row_bytes * copy.row_count;
  return QueueCopy(device, stream, copy.row_bytes, copy.row_count,
                   [this, copy](uint64_t row, uint64_t byte_count) {
                     CopyRow(copy, /*to_host=*/false, row, byte_count);
                   });
}

Status DeviceTwin::CopyOnDevices(int device, const DeviceRowCopy& copy,
                                 DeviceStream stream) {
  const std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(Begin());
  HF_RETURN_IF_ERROR(CheckPitches(copy.row_count, copy.row_bytes,
                                  copy.source_pitch, copy.target_pitch));
  return QueueCopy(device, stream, copy.row_bytes, copy.row_count,
                   [this, copy](uint64_t row, uint64_t byte_count) {
                     const char* const from = Find(
                         copy.source + row * copy.source_pitch, byte_count);
                     char* const to = Find(
                         copy.target + row * copy.target_pitch, byte_count);
                     if (from != nullptr && to != nullptr)
                       std::memmove(to, from, byte_count);
                   });
}

Status DeviceTwin::WaitFor(int device, DeviceStream stream, DeviceEvent event) {
  const std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(Begin());
  HF_RETURN_IF_ERROR(CheckDevice(device));
  const auto at = events_.find(event);
  if (at == events_.end()) return InvalidArgumentError("twin: no such event");
  const uint64_t number = at->second.recorded_count;
  StreamOf(device, stream).work.push_back([this, event, number] {
    const auto awaited = events_.find(event);
    return awaited == events_.end() || awaited->second.passed_count >= number;
  });
  return Status();
}

Result<std::string> DeviceTwin::Architecture(int device) {
  const std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(Begin());
  HF_RETURN_IF_ERROR(CheckDevice(device));
  return std::string("compute_90");
}

Result<DeviceKernel> DeviceTwin::LoadKernel(int device, const std::string&,
                                            const std::string& name) {
  const std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(Begin());
  HF_RETURN_IF_ERROR(CheckDevice(device));
  const auto at = kernels_by_name_.find(name);
  if (at == kernels_by_name_.end()) {
    return InvalidArgumentError("twin: no kernel " + name);
  }
  const DeviceKernel kernel = next_handle_++;
  kernels_[kernel] = at->second;
  return kernel;
}

Status DeviceTwin::Launch(int device, DeviceKernel kernel,
                          const KernelGrid& grid,
                          std::span<const KernelArgument> arguments,
                          DeviceStream stream) {
  const std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(Begin());
  HF_RETURN_IF_ERROR(CheckDevice(device));
  const auto at = kernels_.find(kernel);
  if (at == kernels_.end()) return InvalidArgumentError("twin: no such kernel");
  std::vector<KernelArgument> given(arguments.begin(), arguments.end());
  StreamOf(device, stream)
      .work.push_back([this, run = at->second, grid, given = std::move(given)] {
        if (is_stalled_) return false;
        std::vector<uint64_t> values;
        for (const KernelArgument& argument : given) {
          const bool is_null = argument.value == 0;
          char* const at = argument.is_address && !is_null
                               ? Find(argument.value, 1)
                               : nullptr;
          if (argument.is_address && !is_null && at == nullptr) return true;
          values.push_back(argument.is_address ? reinterpret_cast<uint64_t>(at)
                                               : argument.value);
        }
        run(grid, values);
        return true;
      });
  return Status();
}

// Called with the mutex held.
Status DeviceTwin::QueueCopy(
    int device, DeviceStream stream, uint64_t row_bytes, uint64_t row_count,
    std::function<void(uint64_t row, uint64_t byte_count)> run_row) {
  HF_RETURN_IF_ERROR(CheckDevice(device));
  const bool is_cut = copies_until_cut_ > 0 && --copies_until_cut_ == 0;
  Stream& queue = StreamOf(device, stream);
  queue.work.push_back([=, this, &queue, run_row = std::move(run_row)] {
    if (is_stalled_) return false;
    if (!queue.failure.ok()) return true;
    for (uint64_t row = 0; row < row_count; ++row) {
      if (is_cut && row * 2 >= row_count) break;
      run_row(row, is_cut ? row_bytes / 2 : row_bytes);
    }
    if (is_cut) queue.failure = UnavailableError("twin: a copy was cut off");
    return true;
  });
  return Status();
}

void DeviceTwin::CopyRow(const RowCopy& copy, bool to_host, uint64_t row,
                         uint64_t byte_count) {
  char* const device = Find(copy.device + row * copy.device_pitch, byte_count);
  char* const host = copy.host + row * copy.host_pitch;
  if (!IsPinned(host, byte_count) && !options_.allows_pageable) {
    violations_.push_back("a copy whose host memory is not pinned");
    return;
  }
  if (device == nullptr) return;
  if (to_host) {
    std::memcpy(host, device, byte_count);
  } else {
    std::memcpy(device, host, byte_count);
  }
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
