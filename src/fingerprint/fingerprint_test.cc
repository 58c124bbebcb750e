#include "holdfast/tools/fingerprint.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tensor/box.h"

namespace holdfast {
namespace {

Array Numbers(int64_t count, float first) {
  std::vector<float> numbers(count);
  for (float& number : numbers) number = first++;
  return Array::Of(numbers);
}

TEST(FingerprintOf, IsTheSameForAnyThreadsAndMemory) {
  const int64_t count = 3 << 20;  // several pieces
  const Array array = Numbers(count, 0);
  RunOptions one;
  one.thread_count = 1;
  const auto whole = FingerprintOf(array.view(), one);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->size(), 32u);
  RunOptions three;
  three.thread_count = 3;
  EXPECT_EQ(*FingerprintOf(array.view(), three), *whole);
  ConstArrayView square = array.view();
  square.shape = {count / 4, 4};
  square.strides = {16, 4};
  EXPECT_NE(*FingerprintOf(square), *whole);
}

// What each rank of a group reports.
std::vector<ReplicaReport> CompareAll(
    const std::vector<std::vector<Replica>>& by_rank) {
  const auto transports = MakeThreadTransports(by_rank.size());
  std::vector<ReplicaReport> reports(by_rank.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    threads.emplace_back([&, rank] {
      const auto group = MakeProcessGroup(transports[rank]);
      auto report = CompareReplicas(group.get(), by_rank[rank]);
      ASSERT_TRUE(report.ok()) << report.status().message();
      reports[rank] = *std::move(report);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return reports;
}

Replica Whole(const std::string& name, const Array& array) {
  return {name, array.shape(), {}, array.view()};
}

TEST(CompareReplicas, NamesTheRankAndTensorThatDiffer) {
  const Array good = Numbers(100, 0), bad = Numbers(100, 1);
  const auto reports = CompareAll(
      {{Whole("a", good), Whole("b", good)},
       {Whole("a", good), Whole("b", good)},
       {Whole("a", good), Whole("b", bad)}});
  for (const ReplicaReport& report : reports) {
    ASSERT_EQ(report.divergences.size(), 1u);
    EXPECT_EQ(report.box_count, 2u);
    EXPECT_EQ(report.replica_count, 6u);
    EXPECT_EQ(report.compared_count, 6u);
    EXPECT_EQ(DivergenceText(report.divergences[0]),
              "tensor b: rank 2 differs from ranks 0, 1");
  }
}

TEST(CompareReplicas, ATieNamesAll) {
  const Array good = Numbers(100, 0), bad = Numbers(100, 1);
  const auto reports = CompareAll({{Whole("w", good)}, {Whole("w", bad)}});
  ASSERT_EQ(reports[1].divergences.size(), 1u);
  EXPECT_FALSE(reports[1].divergences[0].has_majority());
  EXPECT_EQ(DivergenceText(reports[1].divergences[0]),
            "tensor w: rank 0 and rank 1 differ, and none has a majority");
}

// Ranks 0 and 2 hold the first half, 1 and 3 the second; 3 is damaged. What one
// rank alone holds is compared with nothing.
TEST(CompareReplicas, BoxesAreComparedWithEqualBoxes) {
  const Array whole = Numbers(100, 0);
  const Array damaged = Numbers(50, 51);
  const auto half = [&](int64_t origin) {
    return Replica{"w", {100}, {origin},
                   Subview(whole.view(), {{origin}, {50}})};
  };
  const auto reports =
      CompareAll({{half(0), Whole("mine", whole)},
                  {half(50)},
                  {half(0)},
                  {{"w", {100}, {50}, damaged.view()}}});
  for (const ReplicaReport& report : reports) {
    EXPECT_EQ(report.box_count, 3u);
    EXPECT_EQ(report.compared_count, 4u);
    ASSERT_EQ(report.divergences.size(), 1u);
    EXPECT_EQ(DivergenceText(report.divergences[0]),
              "tensor w[50:100]: rank 1 and rank 3 differ, and none has a "
              "majority");
  }
}

TEST(CompareReplicas, CopiesOfOneRankAreReplicasToo) {
  const Array good = Numbers(100, 0), bad = Numbers(100, 1);
  const auto report = CompareReplicas(
      nullptr, {Whole("w", good), Whole("w", bad), Whole("w", good)});
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->divergences.size(), 1u);
  EXPECT_EQ(DivergenceText(report->divergences[0]),
            "tensor w: rank 0 (copy 1) differs from rank 0 (copy 0, 2)");
}

TEST(CompareReplicas, ABadBoxOfOneRankFailsAll) {
  const Array array = Numbers(10, 0);
  const auto transports = MakeThreadTransports(2);
  std::vector<Status> statuses(2);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto group = MakeProcessGroup(transports[rank]);
      const Replica replica{"w", {10}, {rank}, array.view()};
      statuses[rank] = CompareReplicas(group.get(), {replica}).status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(
                  "replica of tensor w: box [1:11] is not inside shape (10,)"),
              std::string::npos)
        << status.message();
  }
}

}  // namespace
}  // namespace holdfast
