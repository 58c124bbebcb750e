#include "engine/device/device_checks.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/device/load_plan.h"
#include "ground/base/status_macros.h"
#include "ground/fingerprint/parts.h"

namespace holdfast {
namespace {

// Enough for 16 arrays of any size, which keep a device busy while the host
// waits for the sums.
constexpr uint64_t kSumBytesMax = uint64_t{256} << 10;

uint64_t SumBytesOf(const DeviceFingerprintPlan& plan) {
  return plan.sum_count * sizeof(DeviceSum);
}

}  // namespace

void DeviceChecks::Plan(LoadedKernels& kernels, PinnedRing& ring) {
  batch_bytes_ = std::min(ring.slot_bytes(), kSumBytesMax);
  for (size_t i = 0; i < targets_.parts().size(); ++i) {
    const WantedPart& part = targets_.parts()[i];
    const LeafInfo& leaf = leaves_[part.leaf];
    if (leaf.fingerprint.empty() || part.dtype != *leaf.dtype ||
        part.box.shape != leaf.shape) {
      continue;
    }
    bool are_all_checked = true;
    for (const Target& target : targets_.of_part(i)) {
      if (!Add(part.leaf, target, kernels, ring)) are_all_checked = false;
    }
    if (are_all_checked) complete_leaves_.insert(part.leaf);
  }
}

bool DeviceChecks::Add(size_t leaf, const Target& target,
                       LoadedKernels& kernels, PinnedRing& ring) {
  if (!IsContiguous(target.view)) return false;
  const Shape& shape = leaves_[leaf].shape;
  const std::optional<DeviceFingerprintPlan> plan =
      PlanDeviceFingerprint(target.view.dtype, shape, {}, shape);
  if (!plan || SumBytesOf(*plan) > batch_bytes_) return false;
  Device* const device = DeviceOf(target.device, kernels, ring);
  if (device == nullptr) return false;
  device->checks.push_back({leaf, &target, *plan});
  return true;
}

DeviceChecks::Device* DeviceChecks::DeviceOf(int number, LoadedKernels& kernels,
                                             PinnedRing& ring) {
  auto device = std::ranges::find(devices_, number, &Device::number);
  if (device == devices_.end()) {
    devices_.push_back({number, nullptr, nullptr, {}});
    device = std::prev(devices_.end());
    const Result<const DeviceKernels*> loaded = kernels.Of(number);
    if (loaded.ok()) {
      device->sums =
          DeviceMemory::Allocate(ring.driver(), number, batch_bytes_);
    }
    if (device->sums != nullptr) device->kernels = *loaded;
  }
  return device->kernels == nullptr ? nullptr : &*device;
}

std::set<size_t> DeviceChecks::leaves() const {
  std::set<size_t> leaves;
  for (const Device& device : devices_) {
    for (const Check& check : device.checks) leaves.insert(check.leaf);
  }
  return leaves;
}

Status DeviceChecks::Run(PinnedRing& ring, const CancelToken& cancel) const {
  for (const Device& device : devices_) {
    const std::span<const Check> checks(device.checks);
    for (size_t first = 0; first < checks.size();) {
      size_t last = first;
      uint64_t byte_count = 0;
      while (last < checks.size() &&
             byte_count + SumBytesOf(checks[last].plan) <= batch_bytes_) {
        byte_count += SumBytesOf(checks[last++].plan);
      }
      HF_RETURN_IF_ERROR(cancel.Check());
      HF_RETURN_IF_ERROR(
          RunBatch(device, checks.subspan(first, last - first), ring));
      first = last;
    }
  }
  return Status();
}

Status DeviceChecks::RunBatch(const Device& device,
                              std::span<const Check> batch,
                              PinnedRing& ring) const {
  const auto failed = [&](const Status& status) {
    return status.WithContext(
        NameLeaves(leaves_[batch.front().leaf], leaves_[batch.back().leaf]) +
        ": device " + std::to_string(device.number));
  };
  Result<PinnedRing::Slot> slot = ring.Take();
  if (!slot.ok()) return failed(slot.status());
  std::vector<std::shared_ptr<const void>> owners = {device.sums};
  for (const Check& check : batch) owners.push_back(check.target->owner);
  const Status queued =
      slot->Queue(device.number, std::move(owners), [&](DeviceStream stream) {
        return QueueSums(device, batch, slot->data(), stream);
      });
  // Waits for what was queued, even if not all was.
  const Status waited = slot->Wait();
  if (!queued.ok()) return failed(queued);
  if (!waited.ok()) return failed(waited);
  const auto* sums = reinterpret_cast<const DeviceSum*>(slot->data());
  for (const Check& check : batch) {
    HF_RETURN_IF_ERROR(Compare(check, {sums, check.plan.sum_count}));
    sums += check.plan.sum_count;
  }
  return Status();
}

Status DeviceChecks::QueueSums(const Device& device,
                               std::span<const Check> batch, char* host,
                               DeviceStream stream) {
  RowCopy copy;
  copy.device = device.sums->address();
  copy.host = host;
  for (const Check& check : batch) {
    HF_RETURN_IF_ERROR(device.kernels->SumBox(
        check.plan, reinterpret_cast<DeviceAddress>(check.target->view.data),
        copy.device + copy.row_bytes, stream));
    copy.row_bytes += SumBytesOf(check.plan);
  }
  return device.sums->driver().CopyToHost(device.number, copy, stream);
}

Status DeviceChecks::Compare(const Check& check,
                             std::span<const DeviceSum> sums) const {
  const LeafInfo& leaf = leaves_[check.leaf];
  const Status checked =
      CheckFingerprint(leaf.name, *leaf.dtype, leaf.shape, AddDeviceSums(sums),
                       leaf.fingerprint);
  if (checked.ok()) return checked;
  return checked.WithContext("device " + std::to_string(check.target->device));
}

}  // namespace holdfast
