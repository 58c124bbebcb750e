#include "ground/base/byte_budget.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>
#include <vector>

namespace holdfast {
namespace {

TEST(ByteBudget, NeverHoldsMoreThanItsBound) {
  ByteBudget budget(100);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&budget, t] {
      for (int i = 0; i < 500; ++i) {
        const auto lease = budget.Acquire(1 + (i * 7 + t) % 60);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(budget.peak_bytes(), 100u);
  EXPECT_GT(budget.peak_bytes(), 0u);
}

TEST(ByteBudget, AnOversizedRequestGoesAlone) {
  ByteBudget budget(10);
  auto lease = budget.Acquire(25);
  EXPECT_EQ(budget.peak_bytes(), 25u);
  lease.Release();
  const auto small = budget.Acquire(10);
  EXPECT_EQ(budget.peak_bytes(), 25u);
}

TEST(ByteBudget, MovedLeaseReleasesOnce) {
  ByteBudget budget(10);
  auto first = budget.Acquire(6);
  ByteBudget::Lease second = std::move(first);
  first.Release();
  second.Release();
  const auto whole = budget.Acquire(10);  // would block if 6 were still held
  EXPECT_EQ(budget.peak_bytes(), 10u);
}

TEST(ByteBudget, ZeroMeansNoBound) {
  ByteBudget budget(0);
  const auto a = budget.Acquire(1'000'000);
  const auto b = budget.Acquire(1'000'000);
  EXPECT_EQ(budget.peak_bytes(), 2'000'000u);
}

TEST(ByteBudget, TryAcquireNeverWaits) {
  ByteBudget budget(10);
  auto first = budget.TryAcquire(6);
  ASSERT_TRUE(first.has_value());
  EXPECT_FALSE(budget.TryAcquire(5).has_value());
  EXPECT_FALSE(budget.TryAcquire(11).has_value());
  EXPECT_TRUE(budget.TryAcquire(4).has_value());
  EXPECT_EQ(budget.peak_bytes(), 10u);
  first->Release();
  EXPECT_TRUE(budget.TryAcquire(11).has_value()) << "alone";
}

TEST(ByteBudget, TwoPiecesAreHalfOfItWithinReason) {
  EXPECT_EQ(ByteBudget(8 << 20).piece_bytes(), size_t{2} << 20);
  EXPECT_EQ(ByteBudget(1).piece_bytes(), size_t{128} << 10);
  EXPECT_EQ(ByteBudget(1 << 30).piece_bytes(), size_t{4} << 20);
  EXPECT_TRUE(ByteBudget(8 << 20).WantsPieces((8 << 20) + 1));
  EXPECT_FALSE(ByteBudget(8 << 20).WantsPieces(8 << 20));
  EXPECT_FALSE(ByteBudget(1).WantsPieces(256 << 10)) << "two pieces suffice";
  EXPECT_FALSE(ByteBudget(0).WantsPieces(size_t{1} << 40));
}

}  // namespace
}  // namespace holdfast
