// The plan of one host: the boxes that its ranks want, each once; which rank
// reads which chunks; and where each box is in memory. Every rank computes the
// same plan, because the input is the same.
//
// Thread-safety: values and pure functions. Units: bytes; ranks of the host.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/together/wanted_box.h"

namespace holdfast {

// A box that some ranks want, held in memory once.
struct Slot {
  WantedBox wanted;
  // Ranks that need the memory, ascending: the ranks that want the box, and
  // rank 0 if the box travels between hosts.
  std::vector<uint32_t> ranks;
  enum class Travel : uint8_t {
    kNone,
    kSent,      // also to other hosts, by rank 0
    kReceived,  // from another host, by rank 0; not read here
  };
  Travel travel = Travel::kNone;
};

// Returns a slot for each distinct box, in order. `wanted` is by rank.
std::vector<Slot> MakeSlots(const std::vector<std::vector<WantedBox>>& wanted);
// Returns the index of the slot of `wanted`. REQUIRES: there is one.
size_t FindSlot(const std::vector<Slot>& slots, const WantedBox& wanted);

// Stored chunks that one rank reads together.
struct ReadUnit {
  uint64_t byte_count = 0;      // bytes moved by reading and decoding
  std::vector<uint32_t> slots;  // slots that want part of it, ascending
};

// Returns the rank that reads each unit: a rank that needs the unit if that
// keeps the work even, otherwise the rank with the least work.
std::vector<uint32_t> DivideUnits(const std::vector<ReadUnit>& units,
                                  const std::vector<Slot>& slots,
                                  uint32_t rank_count);

// The memory of a slot.
struct SlotPlace {
  enum class Kind : uint8_t {
    kPrivate,    // of its only rank; only that rank fills it
    kExclusive,  // in a segment of its only rank; others fill it too
    kCommon,     // in a segment that several ranks keep
  };
  Kind kind = Kind::kPrivate;
  uint32_t home = 0;    // the rank that makes the segment
  uint64_t offset = 0;  // in the segment
};

// The bytes of the segments that a rank makes.
struct SegmentSizes {
  uint64_t exclusive_bytes = 0;
  uint64_t common_bytes = 0;
};

struct MemoryPlan {
  std::vector<SlotPlace> places;       // by slot
  std::vector<SegmentSizes> segments;  // by rank
};

// Slots of this size and larger start at a page, so that their memory can be
// returned separately.
inline constexpr uint64_t kPageSlotBytesMin = 64 << 10;

// Decides where each slot is in memory.
// REQUIRES: the sum of the slots' sizes is far from overflow.
MemoryPlan PlanMemory(const std::vector<Slot>& slots,
                      const std::vector<ReadUnit>& units,
                      const std::vector<uint32_t>& readers, uint32_t rank_count,
                      uint64_t page_bytes);

}  // namespace holdfast
