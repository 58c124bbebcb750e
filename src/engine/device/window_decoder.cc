#include "engine/device/window_decoder.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "ground/base/status_macros.h"
#include "ground/device/device_rows.h"

namespace holdfast {
namespace {

// The addresses in a device's memory, and that of the tables in a window, are
// multiples of this.
constexpr uint64_t kAlignment = 256;
// A load takes at most this part of the memory that a device has free, so that
// the program finds the rest.
constexpr uint64_t kShareOfFreeMemory = 2;
// Memory has this part more than a window needs, since the next window may need
// a little more.
constexpr uint64_t kShareOfSpareMemory = 8;

constexpr uint64_t Aligned(uint64_t byte_count) {
  return (byte_count + kAlignment - 1) / kAlignment * kAlignment;
}

RowCopy OneRow(DeviceAddress device, char* host, uint64_t byte_count) {
  RowCopy copy;
  copy.device = device;
  copy.host = host;
  copy.row_bytes = byte_count;
  return copy;
}

}  // namespace

void LoadDecoding::Plan(const LoadTargets& targets,
                        const std::vector<LeafInfo>& leaf_infos,
                        const std::set<size_t>& checked_leaves,
                        uint64_t decode_bytes_min, LoadedKernels& loaded) {
  const std::vector<WantedPart>& parts = targets.parts();
  const auto is_candidate = [&](const WantedPart& part) {
    const LeafInfo& leaf = leaf_infos[part.leaf];
    return leaf.codecs.starts_with("blosc zstd") && part.dtype == *leaf.dtype &&
           (leaf.fingerprint.empty() || checked_leaves.contains(part.leaf));
  };
  std::map<int, uint64_t> bytes_of_device;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!is_candidate(parts[i])) continue;
    bytes_of_device[targets.of_part(i).front().device] +=
        ElementBytes(parts[i].box, parts[i].dtype);
  }
  for (const auto& [device, byte_count] : bytes_of_device) {
    if (byte_count < decode_bytes_min && !loaded.AreLoaded(device)) continue;
    const Result<const DeviceKernels*> of_device = loaded.Of(device);
    if (of_device.ok()) kernels_[device] = *of_device;
  }
  has_part_.resize(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    has_part_[i] = is_candidate(parts[i]) &&
                   kernels_.contains(targets.of_part(i).front().device);
    if (has_part_[i]) leaves_.insert(parts[i].leaf);
  }
}

std::shared_ptr<const DeviceMemory> LoadDecoding::Take(
    DeviceDriver& driver, int device, uint64_t byte_count,
    std::shared_ptr<const DeviceMemory> old) {
  const std::lock_guard lock(mutex_);
  uint64_t& taken_bytes = taken_bytes_[device];
  if (old != nullptr) taken_bytes -= old->byte_count();
  old.reset();
  std::shared_ptr<const DeviceMemory> memory;
  const Result<DeviceSpace> space = driver.Space(device);
  if (space.ok() &&
      taken_bytes + byte_count <=
          (space->free_bytes + taken_bytes) / kShareOfFreeMemory) {
    memory = DeviceMemory::Allocate(driver, device, byte_count);
  }
  if (memory == nullptr) {
    EndRoom();
  } else {
    taken_bytes += byte_count;
  }
  return memory;
}

DeviceAddress WindowDecoder::Batch::elements() const {
  return Aligned(work() + plan.work_bytes());
}

bool WindowDecoder::Batch::Add(const StoredContainer& container, Taken chunk) {
  chunk.encoded_at = encoded_bytes;
  chunk.elements_at = elements_bytes;
  const uint64_t room_at = Aligned(chunk.window_at + chunk.encoded_bytes);
  const uint64_t room_bytes = chunk.window_at + chunk.decoded_bytes - room_at;
  if (!plan.Add(container.bytes, chunk.encoded_at, chunk.decoded_bytes,
                chunk.elements_at, std::max(host_bytes, room_bytes))) {
    return false;
  }
  if (host_bytes < room_bytes) {
    host_at = room_at;
    host_bytes = room_bytes;
  }
  encoded_bytes += Aligned(chunk.encoded_bytes);
  elements_bytes += Aligned(chunk.decoded_bytes);
  taken.push_back(std::move(chunk));
  return true;
}

void WindowDecoder::Begin(const LoadWindow& window, char* memory) {
  window_ = &window;
  memory_ = memory;
  taken_bytes_ = 0;
  bytes_of_piece_.assign(window.pieces.size(), 0);
  batches_.clear();
}

size_t WindowDecoder::PieceAt(const char* memory) const {
  const auto offset = static_cast<uint64_t>(memory - memory_);
  const auto after =
      std::ranges::upper_bound(window_->pieces, offset, {}, &LoadPiece::offset);
  assert(after != window_->pieces.begin());
  return static_cast<size_t>(after - window_->pieces.begin()) - 1;
}

const WantedPart& WindowDecoder::PartOf(size_t piece) const {
  return targets_.parts()[window_->pieces[piece].part];
}

const LoadTargets::Target& WindowDecoder::FirstTarget(size_t piece) const {
  return targets_.of_part(window_->pieces[piece].part).front();
}

bool WindowDecoder::Wants(const ArrayView& target) const {
  return decoding_.HasPart(window_->pieces[PieceAt(target.data)].part);
}

// Adds the chunk to the last batch of its kind, or begins another.
bool WindowDecoder::AddToBatch(int device, const StoredContainer& container,
                               const Taken& taken) {
  const auto last =
      std::find_if(batches_.rbegin(), batches_.rend(), [&](const auto& batch) {
        return batch->device == device &&
               batch->are_known == container.are_known;
      });
  if (last != batches_.rend() && (*last)->Add(container, taken)) return true;
  auto batch = std::make_unique<Batch>(device, container.are_known);
  if (!batch->Add(container, taken)) return false;
  batches_.push_back(std::move(batch));
  return true;
}

bool WindowDecoder::Take(const StoredContainer& container) {
  Taken taken;
  taken.window_at = static_cast<uint64_t>(container.elements - memory_);
  taken.encoded_bytes = container.bytes.size();
  taken.decoded_bytes = container.decoded_bytes;
  const bool leaves_room = Aligned(taken.window_at + taken.encoded_bytes) <
                           taken.window_at + taken.decoded_bytes;
  if (!decoding_.has_room() || taken.decoded_bytes < chunk_bytes_min_ ||
      !leaves_room) {
    return false;
  }
  taken.piece = PieceAt(container.elements);
  taken.box = container.box;
  {
    const std::lock_guard lock(mutex_);
    if (!AddToBatch(FirstTarget(taken.piece).device, container, taken)) {
      return false;
    }
    bytes_of_piece_[taken.piece] += taken.decoded_bytes;
    taken_bytes_ += taken.decoded_bytes;
  }
  if (container.bytes.data() != container.elements) {
    std::memmove(container.elements, container.bytes.data(),
                 container.bytes.size());
  }
  return true;
}

bool WindowDecoder::HasAllOf(size_t piece) const {
  const Box& box = window_->pieces[piece].box;
  return bytes_of_piece_[piece] == ElementBytes(box, PartOf(piece).dtype);
}

bool WindowDecoder::Reserve() {
  std::map<int, uint64_t> bytes_of_device;
  for (const auto& batch : batches_) {
    bytes_of_device[batch->device] += Aligned(batch->memory_bytes());
  }
  for (const auto& [device, byte_count] : bytes_of_device) {
    std::shared_ptr<const DeviceMemory>& memory = memory_of_device_[device];
    if (memory != nullptr && memory->byte_count() >= byte_count) continue;
    memory = decoding_.Take(driver_, device,
                            byte_count + byte_count / kShareOfSpareMemory,
                            std::move(memory));
    if (memory == nullptr) return false;
  }
  std::map<int, uint64_t> used_bytes;
  for (const auto& batch : batches_) {
    uint64_t& used = used_bytes[batch->device];
    const uint64_t byte_count = Aligned(batch->memory_bytes());
    batch->begin = memory_of_device_[batch->device]->address() + used;
    used += byte_count;
  }
  return true;
}

Status WindowDecoder::QueueDecoding(PinnedRing::Slot& slot) {
  for (const auto& batch : batches_) {
    HF_RETURN_IF_ERROR(slot.Queue(
        batch->device, {memory_of_device_.at(batch->device)},
        [&](DeviceStream stream) { return Decode(*batch, stream); }));
  }
  return Status();
}

Status WindowDecoder::Decode(const Batch& batch, DeviceStream stream) const {
  char* const host = memory_ + batch.host_at;
  batch.plan.WriteTables(host);
  HF_RETURN_IF_ERROR(driver_.CopyToDevice(
      batch.device, OneRow(batch.work(), host, batch.plan.table_bytes()),
      stream));
  for (const Taken& taken : batch.taken) {
    HF_RETURN_IF_ERROR(driver_.CopyToDevice(
        batch.device,
        OneRow(batch.begin + taken.encoded_at, memory_ + taken.window_at,
               taken.encoded_bytes),
        stream));
  }
  DevicePlanesMemory memory;
  memory.encoded = batch.begin;
  memory.encoded_bytes = batch.encoded_bytes;
  memory.work = batch.work();
  memory.elements = batch.elements();
  memory.elements_bytes = batch.elements_bytes;
  HF_RETURN_IF_ERROR(decoding_.KernelsOf(batch.device)
                         ->DecodePlanes(batch.plan, memory, stream));
  const uint64_t results_at = batch.plan.results_at();
  return driver_.CopyToHost(
      batch.device,
      OneRow(batch.work() + results_at, host + results_at,
             batch.plan.result_count() * sizeof(uint32_t)),
      stream);
}

Status WindowDecoder::QueueElements(PinnedRing::Slot& slot) const {
  for (const auto& batch : batches_) {
    for (const Taken& taken : batch->taken) {
      const LoadTargets::Target& target = FirstTarget(taken.piece);
      const WantedPart& part = PartOf(taken.piece);
      const DeviceAddress elements = batch->elements() + taken.elements_at;
      const ConstArrayView from{
          part.dtype, reinterpret_cast<const char*>(elements), taken.box.shape,
          ContiguousStrides(taken.box.shape, DTypeBytes(part.dtype))};
      const ConstArrayView to =
          Subview(target.view, Relative(taken.box, part.box.origin));
      for (const DeviceRowCopy& copy : RowsBetween(from, to)) {
        HF_RETURN_IF_ERROR(
            slot.CopyOnDevices(target.device, copy, target.owner));
      }
    }
  }
  return Status();
}

bool WindowDecoder::AreDecoded() const {
  return std::ranges::all_of(batches_, [&](const auto& batch) {
    const DevicePlanesPlan& plan = batch->plan;
    const auto* const words = reinterpret_cast<const uint32_t*>(
        memory_ + batch->host_at + plan.results_at());
    const std::span<const uint32_t> results(words, plan.result_count());
    for (size_t i = 0; i < batch->taken.size(); ++i) {
      if (!plan.IsDecoded(i, results)) return false;
    }
    return true;
  });
}

}  // namespace holdfast
