#include "engine/device/load_targets.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "ground/base/status_macros.h"
#include "ground/device/device_array.h"

namespace holdfast {
namespace {

Status CheckRepeatsNothing(const DeviceArray& array) {
  for (size_t dim = 0; dim < array.shape.size(); ++dim) {
    if (array.strides[dim] != 0 || array.shape[dim] <= 1) continue;
    return InvalidArgumentError(
        "device array: dimension " + std::to_string(dim) +
        " repeats its elements (got stride 0), which cannot be read into");
  }
  return Status();
}

auto KeyOf(const DeviceReadRequest& request) {
  return std::tie(request.leaf, request.origin, request.target.shape,
                  request.target.dtype);
}

}  // namespace

LoadTargets::~LoadTargets() {
  for (const Point& point : points_) {
    driver_.DestroyEvent(point.device, point.event);
  }
}

Status LoadTargets::Add(const Checkpoint& checkpoint,
                        const std::vector<DeviceReadRequest>& requests) {
  std::vector<DeviceReadRequest> wanted;
  for (DeviceReadRequest request : requests) {
    FillStrides(request.target);
    const DeviceArray& target = request.target;
    HF_RETURN_IF_ERROR(checkpoint.CheckRequest(
        {request.leaf,
         request.origin,
         {target.dtype, nullptr, target.shape, target.strides}}));
    if (ElementCount(target.shape) > 0) wanted.push_back(std::move(request));
  }
  std::ranges::stable_sort(wanted, {}, KeyOf);
  for (size_t i = 0; i < wanted.size(); ++i) {
    DeviceReadRequest& request = wanted[i];
    if (i == 0 || KeyOf(request) != KeyOf(wanted[i - 1])) {
      parts_.push_back({request.leaf,
                        {request.origin, request.target.shape},
                        request.target.dtype});
      of_parts_.emplace_back();
    }
    // The key stays: the next request is compared with it.
    Result<Target> target = MakeTarget(request.target);
    if (!target.ok()) {
      return target.status().WithContext(
          "leaf " + checkpoint.leaves()[request.leaf].name);
    }
    of_parts_.back().push_back(*std::move(target));
  }
  return Status();
}

Result<LoadTargets::Target> LoadTargets::MakeTarget(DeviceArray array) {
  HF_RETURN_IF_ERROR(CheckShape(array));
  HF_RETURN_IF_ERROR(CheckRepeatsNothing(array));
  HF_ASSIGN_OR_RETURN(const int device, DeviceOf(driver_, array));
  Result<size_t> point = PointOf(device, array.stream);
  if (!point.ok()) {
    return point.status().WithContext("device " + std::to_string(device));
  }
  return Target{ViewOf(array), device, *point, std::move(array.owner)};
}

Result<size_t> LoadTargets::PointOf(int device, uint64_t stream) {
  const auto found = std::ranges::find_if(points_, [&](const Point& point) {
    return point.device == device && point.stream == stream;
  });
  if (found != points_.end()) {
    return static_cast<size_t>(found - points_.begin());
  }
  HF_ASSIGN_OR_RETURN(const DeviceEvent event, driver_.CreateEvent(device));
  Point& point = points_.emplace_back();
  point.device = device;
  point.stream = stream;
  point.event = event;
  HF_RETURN_IF_ERROR(driver_.Record(device, event, stream));
  return points_.size() - 1;
}

Status LoadTargets::WaitFor(const Target& target, const PinnedRing& ring,
                            const CancelToken& cancel) {
  Point& point = points_[target.point];
  if (point.has_passed.load(std::memory_order_acquire)) return Status();
  HF_RETURN_IF_ERROR(ring.WaitFor(point.device, point.event, cancel));
  point.has_passed.store(true, std::memory_order_release);
  return Status();
}

}  // namespace holdfast
