#include "formats/device/device_fingerprint.h"

#include <algorithm>
#include <cassert>

namespace holdfast {
namespace {

// Enough blocks of threads to fill any device.
constexpr uint64_t kSumCountMax = 1024;
constexpr uint64_t kBytesPerPart = 4096;

DeviceByteRule RuleOf(DType dtype) {
  if (dtype == DType::kBool) return kZeroOrOne;
  if (dtype == DType::kFloat4E2m1fn) return kLowBitsOrSign;
  return DTypeBits(dtype) < 8 ? kLowBits : kAllBits;
}

// Adds an axis outside of those that the box has. Two axes that are evenly
// spaced in the array are one.
bool AddOuterAxis(uint64_t count, uint64_t step, size_t& axis_count,
                  DeviceBox& box) {
  if (count == 1) return true;
  const size_t inner = kOuterRankMax - axis_count;
  if (axis_count > 0 && step == box.counts[inner] * box.steps[inner]) {
    box.counts[inner] *= count;
    return true;
  }
  if (axis_count == kOuterRankMax) return false;
  ++axis_count;
  box.counts[inner - 1] = count;
  box.steps[inner - 1] = step;
  return true;
}

}  // namespace

std::optional<DeviceFingerprintPlan> PlanDeviceFingerprint(
    DType dtype, const Shape& shape, const Shape& origin,
    const Shape& array_shape) {
  assert(shape.size() == array_shape.size());
  DeviceFingerprintPlan plan;
  DeviceBox& box = plan.box;
  box.rule = RuleOf(dtype);
  if (box.rule != kAllBits) box.mask = (1u << DTypeBits(dtype)) - 1;
  const uint64_t element_count = ElementCount(shape);
  if (element_count == 0) return plan;
  plan.byte_count = element_count * DTypeBytes(dtype);
  box.row_bytes = DTypeBytes(dtype);
  uint64_t step = DTypeBytes(dtype);  // of the axis, in the array
  size_t outer_axis_count = 0;
  bool is_in_row = true;
  for (size_t i = shape.size(); i-- > 0;) {
    const auto count = static_cast<uint64_t>(shape[i]);
    if (is_in_row) {
      box.row_bytes *= count;
    } else if (!AddOuterAxis(count, step, outer_axis_count, box)) {
      return std::nullopt;
    }
    is_in_row = is_in_row && shape[i] == array_shape[i];
    if (!origin.empty())
      box.array_at += static_cast<uint64_t>(origin[i]) * step;
    step *= static_cast<uint64_t>(array_shape[i]);
  }
  box.row_count = plan.byte_count / box.row_bytes;
  const uint64_t parts_per_row =
      (box.row_bytes + kBytesPerPart - 1) / kBytesPerPart + 1;
  plan.sum_count = static_cast<uint32_t>(
      std::min(kSumCountMax, box.row_count * parts_per_row));
  return plan;
}

FingerprintSum AddDeviceSums(std::span<const DeviceSum> sums) {
  FingerprintSum total;
  for (const DeviceSum& sum : sums) {
    total += FingerprintSum{sum.low, sum.high};
  }
  return total;
}

}  // namespace holdfast
