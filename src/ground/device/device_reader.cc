#include "ground/device/device_reader.h"

#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "ground/base/status_macros.h"
#include "ground/device/cuda_driver.h"
#include "ground/device/device_rows.h"
#include "ground/tensor/copy.h"

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

// Returns the ring for copies from one of CUDA's devices.
std::shared_ptr<PinnedRing> RingOf(DeviceDriver& driver, int device) {
  // Never destroyed: a leaf may outlive main.
  static auto& mutex = *new std::mutex();
  static auto& rings = *new std::map<int, std::shared_ptr<PinnedRing>>();
  static const PinnedRingOptions options = PinnedRing::DefaultOptions();
  static const auto& budget = *new std::shared_ptr<PinnedBudget>(
      std::make_shared<PinnedBudget>(options.byte_count_max));
  const std::lock_guard lock(mutex);
  std::shared_ptr<PinnedRing>& ring = rings[device];
  if (ring == nullptr) {
    ring = std::make_shared<PinnedRing>(driver, device, options, budget);
  }
  return ring;
}

}  // namespace

DeviceReader::DeviceReader(std::shared_ptr<PinnedRing> ring, DeviceArray array,
                           DeviceEvent written)
    : ring_(std::move(ring)),
      owner_(std::move(array.owner)),
      view_(ViewOf(array)),
      written_(written) {}

DeviceReader::~DeviceReader() {
  ring_->driver().DestroyEvent(ring_->device(), written_);
}

Result<std::shared_ptr<const DeviceReader>> DeviceReader::Make(
    std::shared_ptr<PinnedRing> ring, DeviceArray array) {
  HF_RETURN_IF_ERROR(CheckShape(array));
  DeviceDriver& driver = ring->driver();
  const int device = ring->device();
  HF_ASSIGN_OR_RETURN(const int at, DeviceOf(driver, array));
  if (at != device) {
    return InvalidArgumentError("device array: on device " +
                                std::to_string(at) + " (want " +
                                std::to_string(device) + ")");
  }
  return Begin(std::move(ring), std::move(array));
}

Result<std::shared_ptr<const DeviceReader>> DeviceReader::Begin(
    std::shared_ptr<PinnedRing> ring, DeviceArray array) {
  DeviceDriver& driver = ring->driver();
  const int device = ring->device();
  HF_ASSIGN_OR_RETURN(const DeviceEvent written, driver.CreateEvent(device));
  const uint64_t stream = array.stream;
  std::shared_ptr<const DeviceReader> reader(
      new DeviceReader(std::move(ring), std::move(array), written));
  HF_RETURN_IF_ERROR(driver.Record(device, written, stream));
  return reader;
}

Status DeviceReader::Read(const Shape& origin, const ArrayView& target) const {
  const std::vector<Box> pieces =
      CutBox(view_, {origin, target.shape}, ring_->slot_bytes());
  if (pieces.empty()) return Status();
  HF_RETURN_IF_ERROR(ring_->driver().CheckProcess());
  // No slot is taken, and no copy queued, while the program's work goes on.
  if (!is_written_.load(std::memory_order_acquire)) {
    HF_RETURN_IF_ERROR(ring_->WaitFor(written_));
    is_written_.store(true, std::memory_order_release);
  }
  HF_ASSIGN_OR_RETURN(PinnedRing::Slot slot, ring_->Take());
  for (const Box& piece : pieces) {
    const BoxRows rows = RowsOf(view_, piece, slot.data());
    for (const RowCopy& copy : rows.copies) {
      HF_RETURN_IF_ERROR(slot.CopyToHost(copy, owner_));
    }
    HF_RETURN_IF_ERROR(slot.Wait());
    CopyStrided(rows.view, Subview(target, Relative(piece, origin)));
  }
  return Status();
}

Result<Tree> DeviceLeaf(DeviceArray array, ArrayKind kind,
                        std::shared_ptr<const ArrayTraits> traits) {
  if (array.strides.empty()) {
    array.strides = ContiguousStrides(array.shape, DTypeBytes(array.dtype));
  }
  HF_RETURN_IF_ERROR(CheckShape(array));
  if (ElementCount(array.shape) == 0) {  // it may have no address
    HF_ASSIGN_OR_RETURN(Array empty, Array::Allocate(array.dtype, array.shape));
    if (kind == ArrayKind::kNumpy) return Tree(std::move(empty));
    return Tree::JaxArray(std::move(empty), std::move(traits));
  }
  HF_ASSIGN_OR_RETURN(DeviceDriver* const driver, CudaDriver());
  HF_ASSIGN_OR_RETURN(const int device, DeviceOf(*driver, array));
  const DType dtype = array.dtype;
  Shape shape = array.shape;
  HF_ASSIGN_OR_RETURN(auto reader, DeviceReader::Begin(RingOf(*driver, device),
                                                       std::move(array)));
  return Tree::DeferredArray(dtype, std::move(shape), std::move(reader), kind,
                             std::move(traits));
}

}  // namespace holdfast
