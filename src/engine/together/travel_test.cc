#include "engine/together/travel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace holdfast {
namespace {

using testing::ElementsAre;

WantedBox Leaf(size_t leaf, int64_t count) {
  return {leaf, {{0}, {count}}, DType::kUint8};
}

TEST(Travel, WhatSeveralHostsWantIsReadByOne) {
  const std::vector<Trip> trips =
      PlanTrips({{Leaf(0, 9), Leaf(1, 9), Leaf(2, 9)},
                 {Leaf(0, 9), Leaf(2, 8), Leaf(3, 9)},
                 {Leaf(0, 9), Leaf(1, 9), Leaf(3, 9)}});
  ASSERT_EQ(trips.size(), 3u);
  EXPECT_EQ(trips[0].wanted, Leaf(0, 9));
  EXPECT_THAT(trips[0].hosts, ElementsAre(0, 1, 2));
  EXPECT_THAT(trips[1].hosts, ElementsAre(0, 2));
  EXPECT_THAT(trips[2].hosts, ElementsAre(1, 2));
  std::set<uint32_t> readers;
  for (const Trip& trip : trips) readers.insert(trip.reader);
  EXPECT_EQ(readers.size(), 3u) << "each reads its share";
}

TEST(Travel, MarksComeBack) {
  const std::vector<Trip> trips = {{Leaf(0, 9), {0, 1}, 0},
                                   {Leaf(1, 9), {0, 1}, 1},
                                   {Leaf(7, 9), {1, 2}, 1}};
  const std::vector<Slot> unmarked =
      MakeSlots({{Leaf(0, 9)}, {Leaf(1, 9), Leaf(2, 9)}});
  std::vector<Slot> slots = unmarked;
  MarkTravel(trips, 0, slots);
  EXPECT_EQ(slots[0].travel, Slot::Travel::kSent);
  EXPECT_EQ(slots[1].travel, Slot::Travel::kReceived);
  EXPECT_THAT(slots[1].ranks, ElementsAre(0, 1)) << "rank 0 carries it";
  EXPECT_EQ(slots[2].travel, Slot::Travel::kNone);
  EXPECT_THAT(slots[2].ranks, ElementsAre(1));
  std::vector<Slot> told = unmarked;
  ASSERT_TRUE(DecodeTravel(EncodeTravel(slots), told).ok());
  for (size_t i = 0; i < slots.size(); ++i) {
    EXPECT_EQ(told[i].travel, slots[i].travel);
    EXPECT_EQ(told[i].ranks, slots[i].ranks);
  }
  EXPECT_FALSE(DecodeTravel("\1\2", told).ok());
  EXPECT_FALSE(DecodeTravel("\1\2\3", told).ok());
}

// Records the size of the largest message.
class CountingGroup : public ProcessGroup {
 public:
  CountingGroup(std::unique_ptr<ProcessGroup> inner, size_t* largest)
      : inner_(std::move(inner)), largest_(largest) {}
  int64_t rank() const override { return inner_->rank(); }
  int64_t size() const override { return inner_->size(); }
  Result<std::vector<std::string>> AllGather(const Meeting& meeting,
                                             std::string value) override {
    return inner_->AllGather(meeting, std::move(value));
  }
  Result<std::string> Broadcast(const Meeting& meeting, int64_t root,
                                std::string value) override {
    *largest_ = std::max(*largest_, value.size());
    return inner_->Broadcast(meeting, root, std::move(value));
  }
  Status Agree(const Meeting& meeting, const Status& mine) override {
    return inner_->Agree(meeting, mine);
  }
  std::unique_ptr<ProcessGroup> Subgroup(const std::vector<int64_t>& ranks,
                                         std::string_view name) override {
    return std::make_unique<CountingGroup>(inner_->Subgroup(ranks, name),
                                           largest_);
  }
  void BeginCall() override { inner_->BeginCall(); }
  void EndCall(const Status& mine, double wait_seconds_max) override {
    inner_->EndCall(mine, wait_seconds_max);
  }
  uint64_t call_number() const override { return inner_->call_number(); }
  std::vector<int64_t> failed_ranks() const override {
    return inner_->failed_ranks();
  }

 private:
  const std::unique_ptr<ProcessGroup> inner_;
  size_t* const largest_;
};

TEST(Travel, BoxesArriveInPieces) {
  const std::vector<Trip> trips =
      PlanTrips({{Leaf(0, 100), Leaf(1, 1000), Leaf(3, 7)},
                 {Leaf(0, 100), Leaf(2, 64)},
                 {Leaf(0, 100), Leaf(1, 1000), Leaf(2, 64), Leaf(3, 7)}});
  const auto transports = MakeThreadTransports(3);
  std::vector<std::map<size_t, std::string>> memories(3);
  std::vector<size_t> largest(3, 0);
  std::vector<std::thread> threads;
  for (uint32_t host = 0; host < 3; ++host) {
    threads.emplace_back([&, host] {
      CountingGroup group(
          MakeProcessGroup(transports[host], {.timeout_seconds = 60}),
          &largest[host]);
      const Status moved = MakeTrips(
          trips, group, {"boxes", ""}, 64, [&](const WantedBox& wanted) {
            std::string& memory = memories[host][wanted.leaf];
            const auto is_it = [&](const Trip& trip) {
              return trip.wanted == wanted && trip.reader == host;
            };
            const bool reads = std::any_of(trips.begin(), trips.end(), is_it);
            memory.assign(MemoryBytesOf(wanted), reads ? 'a' + wanted.leaf : 0);
            return memory.data();
          });
      EXPECT_TRUE(moved.ok()) << moved.ToString();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Trip& trip : trips) {
    for (const uint32_t host : trip.hosts) {
      EXPECT_EQ(
          memories[host][trip.wanted.leaf],
          std::string(MemoryBytesOf(trip.wanted), 'a' + trip.wanted.leaf));
    }
  }
  EXPECT_EQ(*std::max_element(largest.begin(), largest.end()), 64u);
}

}  // namespace
}  // namespace holdfast
