// HostRead: what the ranks of one host read from a checkpoint together, from
// the lists of wanted boxes to the arrays.
//
// Every rank of the host calls the steps in order. No step communicates: the
// caller passes the ranks' messages between them. After a failed step no
// further step may be called.
// The work is divided by chunks of the leaves, whatever the format; the
// checkpoint itself finds and reads each chunk (Checkpoint::ReadInto).
// Thread-safety: one thread. Ownership: borrows the checkpoint and the options;
// the arrays own their memory. Units: bytes; ranks of the host.
// Errors: as holdfast/read_together.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/together/host_plan.h"
#include "engine/together/shared_segment.h"
#include "ground/run/run.h"
#include "holdfast/checkpoint.h"
#include "holdfast/process_group.h"

namespace holdfast {

class HostRead {
 public:
  HostRead(const Checkpoint& checkpoint, const RunOptions& options,
           uint32_t rank, uint32_t rank_count)
      : checkpoint_(checkpoint),
        options_(options),
        rank_(rank),
        rank_count_(rank_count) {}

  // Takes the lists of wanted boxes, and checks every box. `lists` are the
  // results of EncodeWanted, by rank; `mine` is this rank's own list.
  Status SetWanted(std::vector<std::string> lists,
                   const std::vector<WantedBox>& mine);
  // The caller may set Slot::travel before the next step.
  std::vector<Slot>& slots() { return slots_; }

  // Divides the work and lays out the memory.
  Status Plan();
  // Allocates this rank's memory.
  Status Allocate();
  // Returns the message that tells the other ranks how to map this rank's
  // segments, and lets them check that their plans are equal.
  std::string Introduction() const;
  // Maps the segments of the other ranks. `introductions` are by rank.
  Status MapOthers(const std::vector<std::string>& introductions);
  // Reads this rank's chunks into the memory of all ranks that want them.
  Status ReadMine(Stats& stats);
  // Returns the memory of a box that travels between hosts.
  // REQUIRES: this rank is 0.
  char* MemoryOf(const WantedBox& wanted);
  // Unmaps the memory of other ranks. Call it before the ranks tell each other
  // that all have finished reading.
  void LetGo();
  // Returns the memory of a wanted box. Call it after LetGo. Its elements are
  // complete once all ranks have read.
  Array ArrayOf(const WantedBox& wanted) const;

 private:
  struct Segment {
    uint64_t byte_count = 0;
    std::optional<SharedSegment> file;
    std::shared_ptr<const Mapping> shared;  // to be filled
    std::shared_ptr<const Mapping> own;     // to be kept
  };
  // How this rank uses a segment.
  struct SegmentNeed {
    bool is_filled = false;
    bool is_kept = false;
  };
  enum SegmentKind : size_t { kExclusive, kCommon, kSegmentKindCount };

  // A chunk of a leaf, or the wanted part of it, with the slots that want it.
  struct Piece {
    Box box;      // of the leaf
    size_t unit;  // that it belongs to
    std::vector<uint32_t> slots;
  };

  Status AddPieces(size_t first_slot, size_t last_slot);
  void AddPiece(Piece piece, uint64_t byte_count);
  void MakeHash();
  Segment& SegmentOf(const SlotPlace& place);
  const Segment& SegmentOf(const SlotPlace& place) const;
  std::vector<bool> SlotsToFill() const;
  std::vector<SegmentNeed> SegmentNeeds() const;  // by segment
  Status MapSegment(const SegmentName& name, const SegmentNeed& need,
                    SegmentKind kind, Segment& segment);
  char* FillAddress(size_t slot);

  const Checkpoint& checkpoint_;
  const RunOptions& options_;
  const uint32_t rank_;
  const uint32_t rank_count_;

  std::vector<Slot> slots_;
  std::vector<Piece> pieces_;
  std::vector<ReadUnit> units_;
  std::vector<uint32_t> readers_;  // by unit
  MemoryPlan memory_;
  uint64_t hash_ = 0;
  std::vector<Array> private_arrays_;  // by slot; empty where not private
  std::vector<Segment> segments_;      // by rank and kind
};

}  // namespace holdfast
