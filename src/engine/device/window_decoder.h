// WindowDecoder: decodes the byte planes of a window on devices, so that fewer
// bytes cross the bus. LoadDecoding: which parts of a load devices decode.
//
// A read hands encoded chunks over instead of their elements
// (engine/restore/encoded_sink.h). They stay in the window's memory, at the
// places of their elements, which are larger; the tables for the device are
// where a chunk leaves room. Chunks whose tables do not fit there begin another
// batch. The device decodes to memory of its own, and
// copies elements from there to the first target. If it has no room, or finds
// damage, the caller reads the window again, without a decoder.//
// Thread-safety: after Plan, LoadDecoding changes only its room on devices,
// from any thread. A decoder belongs to one lane, whose reads call Wants and
// Take from all of their threads. Ownership: borrows targets, kernels, windows
// and their memory; owns its memory on devices, which slots share. Units:
// bytes. Errors: those of DeviceDriver.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "engine/device/device_memory.h"
#include "engine/device/load_plan.h"
#include "engine/device/load_targets.h"
#include "engine/device/loaded_kernels.h"
#include "engine/restore/encoded_sink.h"
#include "formats/device/device_planes.h"
#include "ground/device/pinned_ring.h"

namespace holdfast {

class LoadDecoding {
 public:
  // Finds the parts that may be decoded on devices. A device decodes only if
  // its kernels are loaded, or if it gets at least `decode_bytes_min` bytes of
  // elements, which are worth the time to compile. `checked_leaves` are those
  // whose fingerprints devices compare; leaves that the host must compare are
  // decoded by the host.
  void Plan(const LoadTargets& targets, const std::vector<LeafInfo>& leaves,
            const std::set<size_t>& checked_leaves, uint64_t decode_bytes_min,
            LoadedKernels& kernels);

  // Returns whether any part may be decoded on a device.
  bool is_on() const { return !kernels_.empty(); }
  bool HasPart(size_t part) const { return has_part_[part]; }
  // The leaves of these parts.
  const std::set<size_t>& leaves() const { return leaves_; }
  const DeviceKernels* KernelsOf(int device) const {
    return kernels_.at(device);
  }

  // Takes memory on a device, and gives back `old`. All that a load has at a
  // time is at most half of what was free before it. Returns null if there is
  // no room; then no lane decodes any more.
  std::shared_ptr<const DeviceMemory> Take(
      DeviceDriver& driver, int device, uint64_t byte_count,
      std::shared_ptr<const DeviceMemory> old);
  bool has_room() const { return has_room_; }
  void EndRoom() { has_room_ = false; }

 private:
  std::map<int, const DeviceKernels*> kernels_;  // by device
  std::vector<bool> has_part_;                   // as the targets' parts
  std::set<size_t> leaves_;
  std::atomic<bool> has_room_{true};
  std::mutex mutex_;
  std::map<int, uint64_t> taken_bytes_;  // by device
};

class WindowDecoder final : public EncodedSink {
 public:
  // Chunks of fewer than `chunk_bytes_min` decoded bytes are left to the host.
  WindowDecoder(DeviceDriver& driver, const LoadTargets& targets,
                uint64_t chunk_bytes_min, LoadDecoding& decoding)
      : driver_(driver),
        targets_(targets),
        chunk_bytes_min_(chunk_bytes_min),
        decoding_(decoding) {}

  // Begins a window, which is read to `memory`, a slot's.
  void Begin(const LoadWindow& window, char* memory);

  bool Wants(const ArrayView& target) const override;
  bool Take(const StoredContainer& container) override;

  // After the read: the decoded bytes of what was taken.
  uint64_t taken_bytes() const { return taken_bytes_; }
  // Returns whether chunks that were taken are the complete piece.
  bool HasAllOf(size_t piece) const;
  // Takes memory on the devices. Returns false if one has no room.
  bool Reserve();
  // Begins to copy and to decode what was taken. Call after Reserve.
  Status QueueDecoding(PinnedRing::Slot& slot);
  // Begins to copy the decoded elements to their first targets.
  Status QueueElements(PinnedRing::Slot& slot) const;
  // Returns whether all that was taken is decoded, once the slot's work has
  // ended.
  bool AreDecoded() const;

 private:
  struct Taken {
    size_t piece = 0;
    Box box;  // in the leaf
    uint64_t window_at = 0;
    uint64_t encoded_at = 0;  // in the device's memory
    uint64_t encoded_bytes = 0;
    uint64_t elements_at = 0;
    uint64_t decoded_bytes = 0;
  };
  // Chunks that one device decodes at the same time.
  struct Batch {
    Batch(int device_in, bool are_known_in)
        : device(device_in), are_known(are_known_in), plan(are_known_in) {}

    // Returns false, and adds nothing, if the chunk is not for the device, or
    // if the tables do not fit.
    bool Add(const StoredContainer& container, Taken chunk);

    const int device;
    const bool are_known;
    DevicePlanesPlan plan;
    std::vector<Taken> taken;
    uint64_t encoded_bytes = 0;
    uint64_t elements_bytes = 0;
    // The room that a taken chunk leaves in the window for the plan's tables
    // and results.
    uint64_t host_at = 0;
    uint64_t host_bytes = 0;

    // Where the batch's things are in its device's memory: encoded bytes, work,
    // elements.
    DeviceAddress begin = 0;
    DeviceAddress work() const { return begin + encoded_bytes; }
    DeviceAddress elements() const;
    uint64_t memory_bytes() const {
      return elements() - begin + elements_bytes;
    }
  };

  size_t PieceAt(const char* memory) const;
  const WantedPart& PartOf(size_t piece) const;
  const LoadTargets::Target& FirstTarget(size_t piece) const;
  bool AddToBatch(int device, const StoredContainer& container,
                  const Taken& taken);
  Status Decode(const Batch& batch, DeviceStream stream) const;

  DeviceDriver& driver_;
  const LoadTargets& targets_;
  const uint64_t chunk_bytes_min_;
  LoadDecoding& decoding_;
  const LoadWindow* window_ = nullptr;
  char* memory_ = nullptr;

  std::mutex mutex_;  // held by Take
  std::vector<std::unique_ptr<Batch>> batches_;
  // By device; kept from window to window.
  std::map<int, std::shared_ptr<const DeviceMemory>> memory_of_device_;
  std::vector<uint64_t> bytes_of_piece_;  // decoded bytes that were taken
  uint64_t taken_bytes_ = 0;              // decoded
};

}  // namespace holdfast
