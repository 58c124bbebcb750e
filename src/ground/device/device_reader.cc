#include "ground/device/device_reader.h"

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "ground/base/status_macros.h"
#include "ground/device/cuda_driver.h"
#include "ground/device/device_array.h"
#include "ground/device/device_rows.h"
#include "ground/tensor/copy.h"

namespace holdfast {
namespace {

// Returns the ring for copies from one of CUDA's devices.
std::shared_ptr<PinnedRing> RingOf(DeviceDriver& driver, int device) {
  // Never destroyed: a leaf may outlive main.
  static auto& mutex = *new std::mutex();
  static auto& rings = *new std::map<int, std::shared_ptr<PinnedRing>>();
  const std::lock_guard lock(mutex);
  std::shared_ptr<PinnedRing>& ring = rings[device];
  if (ring == nullptr) {
    ring = std::make_shared<PinnedRing>(driver, device, PinnedRingOptions(),
                                        PinnedBudget::OfProcess());
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
    HF_RETURN_IF_ERROR(ring_->WaitFor(ring_->device(), written_));
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

Status CheckDeviceDriver() {
  HF_ASSIGN_OR_RETURN(const DeviceDriver* const driver, CudaDriver());
  return driver->CheckProcess();
}

Result<std::shared_ptr<const ArrayReader>> MakeDeviceReader(DeviceArray array) {
  FillStrides(array);
  HF_RETURN_IF_ERROR(CheckShape(array));
  HF_ASSIGN_OR_RETURN(DeviceDriver* const driver, CudaDriver());
  HF_ASSIGN_OR_RETURN(const int device, DeviceOf(*driver, array));
  HF_ASSIGN_OR_RETURN(auto reader, DeviceReader::Begin(RingOf(*driver, device),
                                                       std::move(array)));
  return std::shared_ptr<const ArrayReader>(std::move(reader));
}

Result<Tree> DeviceLeaf(DeviceArray array, ArrayKind kind,
                        std::shared_ptr<const ArrayTraits> traits) {
  FillStrides(array);
  HF_RETURN_IF_ERROR(CheckShape(array));
  if (ElementCount(array.shape) == 0) {  // it may have no address
    HF_ASSIGN_OR_RETURN(Array empty, Array::Allocate(array.dtype, array.shape));
    if (kind == ArrayKind::kNumpy) return Tree(std::move(empty));
    return Tree::JaxArray(std::move(empty), std::move(traits));
  }
  const DType dtype = array.dtype;
  Shape shape = array.shape;
  HF_ASSIGN_OR_RETURN(auto reader, MakeDeviceReader(std::move(array)));
  return Tree::DeferredArray(dtype, std::move(shape), std::move(reader), kind,
                             std::move(traits));
}

}  // namespace holdfast
