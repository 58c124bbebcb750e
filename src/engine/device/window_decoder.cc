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
// Smaller containers cost more to copy one by one than they save.
constexpr uint64_t kDecodedBytesMin = uint64_t{16} << 10;
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
    if (of_device.ok()) kernels[device] = *of_device;
  }
  has_part.resize(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    has_part[i] = is_candidate(parts[i]) &&
                  kernels.contains(targets.of_part(i).front().device);
    if (has_part[i]) leaves.insert(parts[i].leaf);
  }
}

uint64_t WindowDecoder::Batch::elements_begin() const {
  return Aligned(work_at() + plan->work_bytes());
}

void WindowDecoder::Begin(const LoadWindow& window, char* memory) {
  window_ = &window;
  memory_ = memory;
  taken_bytes_ = 0;
  bytes_of_piece_.assign(window.pieces.size(), 0);
  for (Batch& batch : batches_) {
    batch.plan.emplace(batch.are_known);
    batch.taken.clear();
    batch.encoded_bytes = batch.elements_bytes = 0;
    batch.host_at = batch.host_bytes = 0;
  }
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
  return decoding_.has_part[window_->pieces[PieceAt(target.data)].part];
}

WindowDecoder::Batch& WindowDecoder::BatchOf(int device, bool are_known) {
  const auto found = std::ranges::find_if(batches_, [&](const Batch& batch) {
    return batch.device == device && batch.are_known == are_known;
  });
  if (found != batches_.end()) return *found;
  Batch& batch = batches_.emplace_back();
  batch.device = device;
  batch.are_known = are_known;
  batch.kernels = decoding_.kernels.at(device);
  batch.plan.emplace(are_known);
  return batch;
}

bool WindowDecoder::Take(const StoredContainer& container) {
  const uint64_t encoded_bytes = container.bytes.size();
  const uint64_t decoded_bytes = container.decoded_bytes;
  Taken taken;
  taken.window_at = static_cast<uint64_t>(container.elements - memory_);
  const uint64_t end = taken.window_at + decoded_bytes;
  const uint64_t host_at = Aligned(taken.window_at + encoded_bytes);
  if (!decoding_.has_room || decoded_bytes < kDecodedBytesMin ||
      host_at >= end) {
    return false;
  }
  taken.piece = PieceAt(container.elements);
  taken.box = container.box;
  taken.encoded_bytes = encoded_bytes;
  taken.decoded_bytes = decoded_bytes;
  {
    const std::lock_guard lock(mutex_);
    Batch& batch =
        BatchOf(FirstTarget(taken.piece).device, container.are_known);
    taken.encoded_at = batch.encoded_bytes;
    taken.elements_at = batch.elements_bytes;
    const uint64_t host_bytes = std::max(batch.host_bytes, end - host_at);
    if (!batch.plan->Add(container.bytes, taken.encoded_at, decoded_bytes,
                         taken.elements_at, host_bytes)) {
      return false;
    }
    if (batch.host_bytes < host_bytes) {
      batch.host_at = host_at;
      batch.host_bytes = host_bytes;
    }
    batch.encoded_bytes += Aligned(encoded_bytes);
    batch.elements_bytes += Aligned(decoded_bytes);
    bytes_of_piece_[taken.piece] += decoded_bytes;
    taken_bytes_ += decoded_bytes;
    batch.taken.push_back(std::move(taken));
  }
  if (container.bytes.data() != container.elements) {
    std::memmove(container.elements, container.bytes.data(), encoded_bytes);
  }
  return true;
}

bool WindowDecoder::HasAllOf(size_t piece) const {
  const Box& box = window_->pieces[piece].box;
  return bytes_of_piece_[piece] == ElementBytes(box, PartOf(piece).dtype);
}

bool WindowDecoder::Reserve() {
  for (Batch& batch : batches_) {
    if (batch.taken.empty() || ReserveFor(batch)) continue;
    decoding_.has_room = false;
    return false;
  }
  return true;
}

bool WindowDecoder::ReserveFor(Batch& batch) {
  uint64_t wanted_bytes = batch.memory_bytes();
  if (batch.memory != nullptr && batch.memory->byte_count() >= wanted_bytes) {
    return true;
  }
  batch.memory.reset();
  wanted_bytes += wanted_bytes / kShareOfSpareMemory;
  const Result<DeviceSpace> space = driver_.Space(batch.device);
  if (!space.ok() || wanted_bytes > space->free_bytes / kShareOfFreeMemory) {
    return false;
  }
  batch.memory = DeviceMemory::Allocate(driver_, batch.device, wanted_bytes);
  return batch.memory != nullptr;
}

Status WindowDecoder::QueueDecoding(PinnedRing::Slot& slot) {
  for (const Batch& batch : batches_) {
    if (batch.taken.empty()) continue;
    HF_RETURN_IF_ERROR(
        slot.Queue(batch.device, {batch.memory},
                   [&](DeviceStream stream) { return Decode(batch, stream); }));
  }
  return Status();
}

Status WindowDecoder::Decode(const Batch& batch, DeviceStream stream) const {
  const DevicePlanesPlan& plan = *batch.plan;
  const DeviceAddress begin = batch.memory->address();
  const DeviceAddress work = begin + batch.work_at();
  char* const host = memory_ + batch.host_at;
  plan.WriteTables(host);
  HF_RETURN_IF_ERROR(driver_.CopyToDevice(
      batch.device, OneRow(work, host, plan.table_bytes()), stream));
  for (const Taken& taken : batch.taken) {
    HF_RETURN_IF_ERROR(driver_.CopyToDevice(
        batch.device,
        OneRow(begin + taken.encoded_at, memory_ + taken.window_at,
               taken.encoded_bytes),
        stream));
  }
  DevicePlanesMemory memory;
  memory.encoded = begin;
  memory.encoded_bytes = batch.encoded_bytes;
  memory.work = work;
  memory.elements = begin + batch.elements_begin();
  memory.elements_bytes = batch.elements_bytes;
  HF_RETURN_IF_ERROR(batch.kernels->DecodePlanes(plan, memory, stream));
  return driver_.CopyToHost(
      batch.device,
      OneRow(work + plan.results_at(), host + plan.results_at(),
             plan.result_count() * sizeof(uint32_t)),
      stream);
}

Status WindowDecoder::QueueElements(PinnedRing::Slot& slot) const {
  for (const Batch& batch : batches_) {
    for (const Taken& taken : batch.taken) {
      const LoadTargets::Target& target = FirstTarget(taken.piece);
      const WantedPart& part = PartOf(taken.piece);
      const DeviceAddress elements =
          batch.memory->address() + batch.elements_begin() + taken.elements_at;
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
  return std::ranges::all_of(batches_, [&](const Batch& batch) {
    if (batch.taken.empty()) return true;
    const auto* const words = reinterpret_cast<const uint32_t*>(
        memory_ + batch.host_at + batch.plan->results_at());
    const std::span<const uint32_t> results(words, batch.plan->result_count());
    for (size_t i = 0; i < batch.taken.size(); ++i) {
      if (!batch.plan->IsDecoded(i, results)) return false;
    }
    return true;
  });
}

}  // namespace holdfast
