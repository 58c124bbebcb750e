// The plan of one host: what its ranks want, each thing once; which rank reads
// what; and where everything lies in memory. The same on every rank, because
// all make it of the same input.
//
// Thread-safety: values and pure functions. Units: bytes; ranks of the host.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/together/wanted_box.h"

namespace holdfast {

// A box that some ranks want, and that is in memory once.
struct Slot {
  WantedBox wanted;
  // Ranks that need its memory, ascending: those that want it, and rank 0 when
  // it travels between hosts.
  std::vector<uint32_t> ranks;
  enum class Travel : uint8_t {
    kNone,
    kSent,      // also to other hosts, by rank 0
    kReceived,  // from another host, by rank 0; not read here
  };
  Travel travel = Travel::kNone;
};

// The distinct boxes, in order. `wanted` by rank.
std::vector<Slot> MakeSlots(const std::vector<std::vector<WantedBox>>& wanted);
// REQUIRES: it is one of them.
size_t FindSlot(const std::vector<Slot>& slots, const WantedBox& wanted);

// Stored chunks that one rank is to read together.
struct ReadUnit {
  uint64_t byte_count = 0;      // what reading and decoding it moves
  std::vector<uint32_t> slots;  // that want some of it, ascending
};

// The rank that reads each unit: one that needs it where that leaves the work
// even, else the one with the least to do.
std::vector<uint32_t> DivideUnits(const std::vector<ReadUnit>& units,
                                  const std::vector<Slot>& slots,
                                  uint32_t rank_count);

// The memory of a slot.
struct SlotPlace {
  enum class Kind : uint8_t {
    kPrivate,    // of its one rank, the only one to fill it
    kExclusive,  // in a segment of its one rank, which others fill too
    kCommon,     // in a segment that several ranks keep
  };
  Kind kind = Kind::kPrivate;
  uint32_t home = 0;    // the rank that makes the segment
  uint64_t offset = 0;  // in it
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

// A slot of this size and more starts at a page, so that its memory can be
// given back by itself.
inline constexpr uint64_t kPageSlotBytesMin = 64 << 10;

// REQUIRES: the sum of all slots is far from overflow.
MemoryPlan PlanMemory(const std::vector<Slot>& slots,
                      const std::vector<ReadUnit>& units,
                      const std::vector<uint32_t>& readers, uint32_t rank_count,
                      uint64_t page_bytes);

}  // namespace holdfast
