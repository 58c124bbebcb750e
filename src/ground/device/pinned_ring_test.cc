#include "ground/device/pinned_ring.h"

#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "twins/device_twin.h"

namespace holdfast {
namespace {

// Two rings that share a budget. Without `wait_seconds_max`, a ring that would
// have to wait for a slot fails.
class SharedBudget : public ::testing::Test {
 protected:
  PinnedRing& Add(uint64_t slot_bytes, int64_t wait_seconds_max = 0) {
    return *rings_.emplace_back(std::make_unique<PinnedRing>(
        twin_, 0,
        PinnedRingOptions{.slot_bytes = slot_bytes,
                          .wait_seconds_max = wait_seconds_max},
        budget_));
  }
  static std::vector<PinnedRing::Slot> TakeAll(PinnedRing& ring, int count) {
    std::vector<PinnedRing::Slot> slots;
    for (int i = 0; i < count; ++i) {
      auto slot = ring.Take();
      EXPECT_TRUE(slot.ok()) << slot.status().ToString();
      if (slot.ok()) slots.push_back(*std::move(slot));
    }
    return slots;
  }

  DeviceTwin twin_{{.pinned_bytes_max = 5000}};
  const std::shared_ptr<PinnedBudget> budget_ =
      std::make_shared<PinnedBudget>(2000);
  std::vector<std::unique_ptr<PinnedRing>> rings_;
};

TEST_F(SharedBudget, SpareSlotsOfOthersMakeRoomForALargerOne) {
  PinnedRing& small = Add(300);
  PinnedRing& large = Add(800);
  const auto first = TakeAll(large, 1);
  TakeAll(small, 4);
  EXPECT_EQ(twin_.pinned_bytes(), 800u + 4 * 300);
  const auto second = TakeAll(large, 1);
  EXPECT_EQ(twin_.pinned_bytes(), 2 * 800u + 300);
}

TEST_F(SharedBudget, OthersKeepTheirSpareSlotsIfThoseDoNotSuffice) {
  PinnedRing& small = Add(300);
  PinnedRing& large = Add(800);
  const auto first = TakeAll(large, 1);
  auto slots = TakeAll(small, 4);
  slots.pop_back();
  EXPECT_EQ(large.Take().status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(twin_.pinned_bytes(), 800u + 4 * 300);
}

TEST_F(SharedBudget, ARingHasOneSlotInAnyCaseAndWaitsForASecond) {
  PinnedRing& other = Add(500);
  PinnedRing& ring = Add(500, 20);
  auto slots = TakeAll(other, 4);
  const auto first = TakeAll(ring, 1);
  EXPECT_EQ(twin_.pinned_bytes(), 2500u);
  std::jthread second([&] { TakeAll(ring, 1); });
  slots.clear();  // lets the thread go on
  second.join();
  EXPECT_EQ(twin_.pinned_bytes(), 2000u);
}

// The system grants no more than the budget, and another ring has it all.
TEST_F(SharedBudget, ARingWhoseSlotsWereTakenGoesOnInOrdinaryMemory) {
  twin_.SetOptions({.pinned_bytes_max = 2000});
  PinnedRing& ring = Add(500);
  PinnedRing& other = Add(500);
  TakeAll(ring, 1);
  ::testing::internal::CaptureStderr();
  {
    const auto slots = TakeAll(other, 4);
    TakeAll(ring, 1);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  // Further slots are page-locked.
  const auto slots = TakeAll(ring, 2);
  EXPECT_EQ(twin_.pinned_bytes(), 1500u);
  rings_.erase(rings_.begin() + 1);
  EXPECT_EQ(twin_.pinned_bytes(), 500u);
}

TEST_F(SharedBudget, IsGivenBackByRingsThatEndAndSlotsThatFail) {
  TakeAll(Add(500), 4);
  rings_.clear();
  PinnedRing& ring = Add(500);
  for (int i = 0; i < 4; ++i) {
    twin_.FailCall(1, UnavailableError("injected"));
    EXPECT_FALSE(ring.Take().ok());
  }
  TakeAll(ring, 4);
  EXPECT_EQ(twin_.pinned_bytes(), 2000u);
  rings_.clear();
  EXPECT_EQ(twin_.pinned_bytes(), 0u);
}

}  // namespace
}  // namespace holdfast
