#include "engine/together/host_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace holdfast {
namespace {

using testing::ElementsAre;

WantedBox Rows(size_t leaf, int64_t first, int64_t count) {
  return {leaf, {{first, 0}, {count, 1024}}, DType::kFloat32};
}

TEST(HostPlan, EqualBoxesAreOneSlot) {
  const std::vector<Slot> slots =
      MakeSlots({{Rows(1, 0, 4), Rows(0, 0, 8), Rows(0, 0, 8)},
                 {},
                 {Rows(0, 0, 8), Rows(0, 0, 4)}});
  ASSERT_EQ(slots.size(), 3u);
  EXPECT_EQ(slots[0].wanted, Rows(0, 0, 4));
  EXPECT_THAT(slots[0].ranks, ElementsAre(2));
  EXPECT_THAT(slots[1].ranks, ElementsAre(0, 2));
  EXPECT_THAT(slots[2].ranks, ElementsAre(0));
  EXPECT_EQ(FindSlot(slots, Rows(1, 0, 4)), 2u);
}

// A box in another dtype needs separate memory.
TEST(HostPlan, OtherDTypesAreOtherSlots) {
  WantedBox wide = Rows(0, 0, 8);
  wide.dtype = DType::kFloat64;
  EXPECT_EQ(MakeSlots({{Rows(0, 0, 8)}, {wide}}).size(), 2u);
}

TEST(HostPlan, RanksReadTheirOwnWhileThatIsEven) {
  const std::vector<Slot> slots = MakeSlots({{Rows(0, 0, 4)}, {Rows(0, 4, 4)}});
  const std::vector<ReadUnit> units = {{100, {1}}, {100, {0}}};
  EXPECT_THAT(DivideUnits(units, slots, 2), ElementsAre(1, 0));
  // One rank wants everything; the other must help.
  const std::vector<ReadUnit> uneven = {{100, {0}}, {100, {0}}};
  const auto readers = DivideUnits(uneven, slots, 2);
  EXPECT_NE(readers[0], readers[1]);
}

TEST(HostPlan, DivisionIsEven) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const uint32_t rank_count = random() % 4 + 1;
    std::vector<std::vector<WantedBox>> wanted(rank_count);
    for (int n = random() % 20 + 1; n > 0; --n) {
      wanted[random() % rank_count].push_back(Rows(random() % 9, 0, 4));
    }
    const std::vector<Slot> slots = MakeSlots(wanted);
    std::vector<ReadUnit> units(random() % 50 + 1);
    uint64_t total = 0, largest = 0;
    for (ReadUnit& unit : units) {
      unit.byte_count = random() % 1000;
      unit.slots = {static_cast<uint32_t>(random() % slots.size())};
      total += unit.byte_count;
      largest = std::max(largest, unit.byte_count);
    }
    const auto readers = DivideUnits(units, slots, rank_count);
    std::vector<uint64_t> loads(rank_count, 0);
    for (size_t i = 0; i < units.size(); ++i) {
      ASSERT_LT(readers[i], rank_count);
      loads[readers[i]] += units[i].byte_count;
    }
    EXPECT_LE(*std::max_element(loads.begin(), loads.end()),
              (total / rank_count + 1) * 9 / 8 + largest);
  }
}

TEST(HostPlan, MemoryIsSharedWhereItMustBe) {
  // Slot 0 belongs only to rank 0, which reads it; slot 1 to rank 1, read by
  // both; slot 2 to both.
  const std::vector<Slot> slots = MakeSlots(
      {{Rows(0, 0, 4), Rows(2, 0, 4)}, {Rows(1, 0, 4), Rows(2, 0, 4)}});
  const std::vector<ReadUnit> units = {{1, {0}}, {1, {1}}, {1, {1, 2}}};
  const MemoryPlan plan = PlanMemory(slots, units, {0, 1, 0}, 2, 4096);
  EXPECT_EQ(plan.places[0].kind, SlotPlace::Kind::kPrivate);
  EXPECT_EQ(plan.places[1].kind, SlotPlace::Kind::kExclusive);
  EXPECT_EQ(plan.places[1].home, 1u);
  EXPECT_EQ(plan.places[2].kind, SlotPlace::Kind::kCommon);
  EXPECT_EQ(plan.segments[1].exclusive_bytes, 4u * 4096);
}

TEST(HostPlan, SlotsOfASegmentDoNotOverlap) {
  std::mt19937 random(4);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::vector<WantedBox>> wanted(3);
    for (int n = 0; n < 30; ++n) {
      wanted[random() % 3].push_back(Rows(random() % 6, 0, random() % 40 + 1));
    }
    const std::vector<Slot> slots = MakeSlots(wanted);
    std::vector<ReadUnit> units;
    std::vector<uint32_t> readers;
    for (uint32_t i = 0; i < slots.size(); ++i) {
      units.push_back({1, {i}});
      readers.push_back(random() % 3);
    }
    const MemoryPlan plan = PlanMemory(slots, units, readers, 3, 4096);
    for (size_t i = 0; i < slots.size(); ++i) {
      const SlotPlace& a = plan.places[i];
      if (a.kind == SlotPlace::Kind::kPrivate) continue;
      const uint64_t a_end = a.offset + MemoryBytesOf(slots[i].wanted);
      const SegmentSizes& sizes = plan.segments[a.home];
      EXPECT_LE(a_end, a.kind == SlotPlace::Kind::kCommon
                           ? sizes.common_bytes
                           : sizes.exclusive_bytes);
      EXPECT_EQ(a.offset % 64, 0u);
      for (size_t k = i + 1; k < slots.size(); ++k) {
        const SlotPlace& b = plan.places[k];
        if (b.kind != a.kind || b.home != a.home) continue;
        EXPECT_TRUE(a_end <= b.offset ||
                    b.offset + MemoryBytesOf(slots[k].wanted) <= a.offset);
      }
    }
  }
}

}  // namespace
}  // namespace holdfast
