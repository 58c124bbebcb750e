// WindowDecoder: decodes the byte planes of a window on devices, so that fewer
// bytes cross the bus. LoadDecoding: which parts of a load devices decode.
//
// A read hands encoded chunks over instead of their elements
// (engine/restore/encoded_sink.h). They stay in the window's memory, at the
// places of their elements, which are larger; the tables for the device are
// where a chunk leaves room. The device decodes to memory of its own, and
// copies elements from there to the first target. If it has no room, or finds
// damage, the caller reads the window again, without a decoder. Thread-safety:
// LoadDecoding is immutable after Plan, but for has_room. A decoder belongs to
// one lane, whose reads call Wants and Take from all of their threads.
// Ownership: borrows targets, kernels, windows and their memory; owns its
// memory on devices, which slots share. Units: bytes. Errors: those of
// DeviceDriver.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
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

struct LoadDecoding {
  // Finds the parts that may be decoded on devices. A device decodes only if
  // its kernels are loaded, or if it gets at least `decode_bytes_min` bytes of
  // elements, which are worth the time to compile. `checked_leaves` are those
  // whose fingerprints devices compare; leaves that the host must compare are
  // decoded by the host.
  void Plan(const LoadTargets& targets, const std::vector<LeafInfo>& leaves,
            const std::set<size_t>& checked_leaves, uint64_t decode_bytes_min,
            LoadedKernels& kernels);

  std::map<int, const DeviceKernels*> kernels;  // by device
  std::vector<bool> has_part;                   // as the targets' parts
  std::set<size_t> leaves;                      // those of the parts
  std::atomic<bool> has_room{true};             // until a device had none
};

class WindowDecoder final : public EncodedSink {
 public:
  WindowDecoder(DeviceDriver& driver, const LoadTargets& targets,
                LoadDecoding& decoding)
      : driver_(driver), targets_(targets), decoding_(decoding) {}

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
  // All that one device decodes at the same time.
  struct Batch {
    int device = 0;
    bool are_known = false;
    const DeviceKernels* kernels = nullptr;
    std::optional<DevicePlanesPlan> plan;
    std::vector<Taken> taken;
    uint64_t encoded_bytes = 0;
    uint64_t elements_bytes = 0;
    // The room that a taken chunk leaves in the window for the plan's tables
    // and results.
    uint64_t host_at = 0;
    uint64_t host_bytes = 0;
    std::shared_ptr<const DeviceMemory> memory;  // kept from window to window

    // Where things are in the memory; the encoded bytes are at its beginning.
    uint64_t work_at() const { return encoded_bytes; }
    uint64_t elements_begin() const;
    uint64_t memory_bytes() const { return elements_begin() + elements_bytes; }
  };

  size_t PieceAt(const char* memory) const;
  const WantedPart& PartOf(size_t piece) const;
  const LoadTargets::Target& FirstTarget(size_t piece) const;
  Batch& BatchOf(int device, bool are_known);
  bool ReserveFor(Batch& batch);
  Status Decode(const Batch& batch, DeviceStream stream) const;

  DeviceDriver& driver_;
  const LoadTargets& targets_;
  LoadDecoding& decoding_;
  const LoadWindow* window_ = nullptr;
  char* memory_ = nullptr;

  std::mutex mutex_;  // held by Take
  std::deque<Batch> batches_;
  std::vector<uint64_t> bytes_of_piece_;  // decoded bytes that were taken
  uint64_t taken_bytes_ = 0;  // decoded
};

}  // namespace holdfast
