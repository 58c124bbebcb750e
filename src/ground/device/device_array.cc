#include "ground/device/device_array.h"

#include <limits>
#include <optional>
#include <string>

#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

struct Extent {
  DeviceAddress begin = 0;
  DeviceAddress end = 0;
};

// Returns the bytes that the array's elements lie in; nullopt if they are
// beyond any memory.
std::optional<Extent> ExtentOf(const DeviceArray& array) {
  constexpr uint64_t kLast = ~uint64_t{0};
  Extent extent{array.address, array.address};
  for (size_t dim = 0; dim < array.shape.size(); ++dim) {
    if (array.shape[dim] == 0) return Extent{array.address, array.address};
    const auto steps = static_cast<uint64_t>(array.shape[dim] - 1);
    const int64_t stride = array.strides[dim];
    const uint64_t step = stride < 0 ? -static_cast<uint64_t>(stride) : stride;
    uint64_t reach = 0;
    if (__builtin_mul_overflow(steps, step, &reach)) return std::nullopt;
    if (stride < 0) {
      if (reach > extent.begin) return std::nullopt;
      extent.begin -= reach;
    } else {
      if (reach > kLast - extent.end) return std::nullopt;
      extent.end += reach;
    }
  }
  const uint64_t element_bytes = DTypeBytes(array.dtype);
  if (element_bytes > kLast - extent.end) return std::nullopt;
  extent.end += element_bytes;
  return extent;
}

}  // namespace

void FillStrides(DeviceArray& array) {
  if (!array.strides.empty()) return;
  array.strides = ContiguousStrides(array.shape, DTypeBytes(array.dtype));
}

Status CheckShape(const DeviceArray& array) {
  if (array.strides.size() != array.shape.size()) {
    return InvalidArgumentError(
        "device array: strides (got " + std::to_string(array.strides.size()) +
        ", want one for each of " + std::to_string(array.shape.size()) +
        " dimensions)");
  }
  if (array.shape.size() > kRankMax) {
    return InvalidArgumentError(
        "device array: rank " + std::to_string(array.shape.size()) +
        " (want at most " + std::to_string(kRankMax) + ")");
  }
  for (const int64_t stride : array.strides) {
    if (stride == std::numeric_limits<int64_t>::min()) {
      return InvalidArgumentError("device array: a stride of -2^63 bytes");
    }
  }
  for (const int64_t extent : array.shape) {
    if (extent < 0) {
      return InvalidArgumentError("device array: an extent of " +
                                  std::to_string(extent));
    }
  }
  return Status();
}

// Checks that the array is in one allocation, and returns its device.
Result<int> DeviceOf(DeviceDriver& driver, const DeviceArray& array) {
  const std::string what = std::string(driver.name()) + ": the array at " +
                           std::to_string(array.address);
  HF_ASSIGN_OR_RETURN(const AddressInfo info, driver.Describe(array.address));
  if (info.home != MemoryHome::kDevice && info.home != MemoryHome::kManaged) {
    return InvalidArgumentError(
        what + " is in host memory; pass it as an array of the host");
  }
  const std::optional<Extent> extent = ExtentOf(array);
  const bool is_inside = extent.has_value() && extent->begin >= info.begin &&
                         extent->end <= info.begin + info.byte_count;
  if (is_inside) return info.device;
  return InvalidArgumentError(what + " ends outside of its allocation of " +
                              std::to_string(info.byte_count) +
                              " bytes on device " +
                              std::to_string(info.device));
}

ConstArrayView ViewOf(const DeviceArray& array) {
  return {array.dtype, reinterpret_cast<const char*>(array.address),
          array.shape, array.strides};
}

}  // namespace holdfast
