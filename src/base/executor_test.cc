#include "base/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <thread>
#include <vector>

namespace holdfast {
namespace {

TEST(Executor, RunsEachItemOnceWithExclusiveWorkers) {
  for (const int thread_count : {1, 2, 8}) {
    Executor executor(thread_count);
    std::vector<std::atomic<int>> runs(1000);
    std::vector<std::atomic<int>> busy(thread_count);
    const Status status =
        executor.ParallelFor(runs.size(), [&](size_t item, int worker) {
          EXPECT_EQ(busy[worker].fetch_add(1), 0);
          runs[item].fetch_add(1);
          busy[worker].fetch_sub(1);
          return Status();
        });
    ASSERT_TRUE(status.ok());
    for (const auto& count : runs) ASSERT_EQ(count, 1);
  }
}

TEST(Executor, ReturnsAFailureAndStops) {
  Executor executor(4);
  std::atomic<int> runs{0};
  const Status status = executor.ParallelFor(1'000'000, [&](size_t item, int) {
    runs.fetch_add(1);
    return item == 5 ? DataLossError("item five") : Status();
  });
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_LT(runs, 1'000'000);
}

TEST(Executor, ShortMemoryIsAStatus) {
  Executor executor(2);
  const Status status = executor.ParallelFor(
      4, [](size_t, int) -> Status { throw std::bad_alloc(); });
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
}

TEST(Executor, CancelledBeforeAndDuring) {
  Executor executor(2);
  CancelToken cancel;
  std::atomic<int> runs{0};
  const auto fn = [&](size_t item, int) {
    runs.fetch_add(1);
    if (item == 3) cancel.Cancel();
    return Status();
  };
  EXPECT_EQ(executor.ParallelFor(1'000'000, fn, &cancel).code(),
            StatusCode::kCancelled);
  EXPECT_LT(runs, 1'000'000);
  runs = 0;
  EXPECT_EQ(executor.ParallelFor(10, fn, &cancel).code(),
            StatusCode::kCancelled);
  EXPECT_EQ(runs, 0);
}

TEST(Executor, NestedAndConcurrentLoops) {
  Executor executor(3);
  std::atomic<int> sum{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      const Status status = executor.ParallelFor(10, [&](size_t, int) {
        return executor.ParallelFor(10, [&](size_t, int) {
          sum.fetch_add(1);
          return Status();
        });
      });
      EXPECT_TRUE(status.ok());
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 400);
}

}  // namespace
}  // namespace holdfast
