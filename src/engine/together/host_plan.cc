#include "engine/together/host_plan.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace holdfast {
namespace {

constexpr uint64_t kSlotAlignBytes = 64;  // as Array's

// A rank may exceed its share of the work by this many eighths to read what it
// needs itself, because memory that is not shared is cheaper.
constexpr uint64_t kOverloadEighths = 1;

std::vector<uint32_t> RanksOf(const ReadUnit& unit,
                              const std::vector<Slot>& slots) {
  std::vector<uint32_t> ranks;
  for (const uint32_t slot : unit.slots) {
    const std::vector<uint32_t>& more = slots[slot].ranks;
    ranks.insert(ranks.end(), more.begin(), more.end());
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

uint64_t RoundUp(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Returns the rank that makes the memory of a slot that several ranks need: of
// these ranks, the one whose common segment is smallest so far.
uint32_t HomeOf(const Slot& slot, const std::vector<SegmentSizes>& segments) {
  if (slot.travel != Slot::Travel::kNone) return 0;
  return *std::min_element(
      slot.ranks.begin(), slot.ranks.end(), [&](uint32_t a, uint32_t b) {
        return segments[a].common_bytes < segments[b].common_bytes;
      });
}

}  // namespace

std::vector<Slot> MakeSlots(const std::vector<std::vector<WantedBox>>& wanted) {
  struct Want {
    const WantedBox* box;
    uint32_t rank;
  };
  std::vector<Want> wants;
  for (size_t rank = 0; rank < wanted.size(); ++rank) {
    for (const WantedBox& box : wanted[rank]) {
      wants.push_back({&box, static_cast<uint32_t>(rank)});
    }
  }
  // Stable, so that the ranks of equal boxes stay ascending.
  std::stable_sort(
      wants.begin(), wants.end(),
      [](const Want& a, const Want& b) { return *a.box < *b.box; });
  std::vector<Slot> slots;
  for (const Want& want : wants) {
    if (slots.empty() || slots.back().wanted != *want.box) {
      slots.push_back({*want.box, {}, Slot::Travel::kNone});
    }
    std::vector<uint32_t>& ranks = slots.back().ranks;
    if (ranks.empty() || ranks.back() != want.rank) ranks.push_back(want.rank);
  }
  return slots;
}

size_t FindSlot(const std::vector<Slot>& slots, const WantedBox& wanted) {
  const auto it = std::lower_bound(
      slots.begin(), slots.end(), wanted,
      [](const Slot& slot, const WantedBox& box) { return slot.wanted < box; });
  assert(it != slots.end() && it->wanted == wanted);
  return it - slots.begin();
}

std::vector<uint32_t> DivideUnits(const std::vector<ReadUnit>& units,
                                  const std::vector<Slot>& slots,
                                  uint32_t rank_count) {
  std::vector<size_t> order(units.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Largest units first; equal ones in the order of the files.
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return units[a].byte_count > units[b].byte_count;
  });
  uint64_t total_bytes = 0;
  for (const ReadUnit& unit : units) total_bytes += unit.byte_count;
  const uint64_t share_bytes = total_bytes / rank_count + 1;
  const uint64_t load_bytes_max =
      share_bytes + share_bytes / 8 * kOverloadEighths;
  std::vector<uint64_t> loads(rank_count, 0);
  const auto is_less_loaded = [&](uint32_t a, uint32_t b) {
    return loads[a] < loads[b];
  };
  std::vector<uint32_t> readers(units.size());
  for (const size_t i : order) {
    const std::vector<uint32_t> needy = RanksOf(units[i], slots);
    assert(!needy.empty());
    uint32_t reader =
        *std::min_element(needy.begin(), needy.end(), is_less_loaded);
    if (loads[reader] + units[i].byte_count > load_bytes_max) {
      reader = static_cast<uint32_t>(
          std::min_element(loads.begin(), loads.end()) - loads.begin());
    }
    loads[reader] += units[i].byte_count;
    readers[i] = reader;
  }
  return readers;
}

MemoryPlan PlanMemory(const std::vector<Slot>& slots,
                      const std::vector<ReadUnit>& units,
                      const std::vector<uint32_t>& readers, uint32_t rank_count,
                      uint64_t page_bytes) {
  std::vector<bool> is_filled_by_others(slots.size(), false);
  for (size_t i = 0; i < units.size(); ++i) {
    for (const uint32_t slot : units[i].slots) {
      if (slots[slot].ranks[0] != readers[i]) is_filled_by_others[slot] = true;
    }
  }
  MemoryPlan plan;
  plan.segments.resize(rank_count);
  plan.places.reserve(slots.size());
  for (size_t i = 0; i < slots.size(); ++i) {
    const Slot& slot = slots[i];
    SlotPlace& place = plan.places.emplace_back();
    place.home = HomeOf(slot, plan.segments);
    if (slot.ranks.size() > 1) {
      place.kind = SlotPlace::Kind::kCommon;
    } else if (is_filled_by_others[i]) {
      place.kind = SlotPlace::Kind::kExclusive;
    } else {
      continue;
    }
    SegmentSizes& sizes = plan.segments[place.home];
    uint64_t& end = place.kind == SlotPlace::Kind::kCommon
                        ? sizes.common_bytes
                        : sizes.exclusive_bytes;
    const uint64_t byte_count = MemoryBytesOf(slot.wanted);
    place.offset = RoundUp(
        end, byte_count >= kPageSlotBytesMin ? page_bytes : kSlotAlignBytes);
    end = place.offset + byte_count;
  }
  return plan;
}

}  // namespace holdfast
