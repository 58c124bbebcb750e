#include "ground/base/executor.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "ground/base/start_threads.h"
#include "twins/thread_shortage.h"

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

TEST(Executor, AnExceptionIsAStatus) {
  for (const int thread_count : {1, 2, 8}) {
    Executor executor(thread_count);
    Status status = executor.ParallelFor(
        100, [](size_t, int) -> Status { throw std::bad_alloc(); });
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
    status = executor.ParallelFor(100, [](size_t, int) -> Status {
      throw std::runtime_error("no luck");
    });
    EXPECT_EQ(status.code(), StatusCode::kInternal);
    EXPECT_EQ(status.message(), "an item of a parallel loop threw: no luck");
    std::atomic<int> runs{0};
    status = executor.ParallelFor(100, [&](size_t, int) {
      runs.fetch_add(1);
      return Status();
    });
    EXPECT_TRUE(status.ok());
    EXPECT_EQ(runs, 100);
  }
}

// The thrower is a pool thread, or the caller while pool threads still work.
TEST(Executor, AnExceptionOfOneThreadEndsTheLoopOfAll) {
  for (const bool is_of_caller : {false, true}) {
    Executor executor(4);
    const std::thread::id caller = std::this_thread::get_id();
    std::atomic<bool> has_thrown{false};
    const Status status =
        executor.ParallelFor(size_t{1} << 40, [&](size_t, int) {
          const bool is_caller = std::this_thread::get_id() == caller;
          if (is_caller == is_of_caller && !has_thrown.exchange(true)) {
            throw std::runtime_error("no luck");
          }
          return Status();
        });
    EXPECT_EQ(status.code(), StatusCode::kInternal);
  }
}

TEST(Executor, WorksWithTheThreadsThatThereAre) {
  if (!ThreadShortage::kIsPossible) GTEST_SKIP() << "clang's sanitizer";
  for (const int started_max : {0, 1, 2}) {
    ThreadShortage shortage(started_max);
    Executor executor(8);
    EXPECT_EQ(executor.thread_count(), 8);
    std::vector<std::atomic<int>> runs(1000);
    std::set<std::thread::id> threads;
    std::mutex mutex;
    const Status status = executor.ParallelFor(runs.size(), [&](size_t i, int) {
      runs[i].fetch_add(1);
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
      return Status();
    });
    ASSERT_TRUE(status.ok());
    for (const auto& count : runs) ASSERT_EQ(count, 1);
    EXPECT_LE(threads.size(), 1u + started_max);
    EXPECT_EQ(shortage.refused_count(), 1);
  }
}

TEST(StartThreads, TellsWhatThereIs) {
  if (!ThreadShortage::kIsPossible) GTEST_SKIP() << "clang's sanitizer";
  ThreadShortage shortage(1);
  std::atomic<int> runs{0};
  auto thread = TryStartThread([&] { ++runs; });
  ASSERT_TRUE(thread.has_value());
  thread->join();
  EXPECT_FALSE(TryStartThread([&] { ++runs; }).has_value());
  std::vector<std::thread> threads;
  StartThreads(3, threads, [&] { ++runs; });
  EXPECT_EQ(threads.size(), 0u);
  EXPECT_EQ(runs, 1);
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

// A Python process that collects garbage after a fork uses its parent's
// executor like this.
TEST(Executor, AChildMayUseAndDropThatOfItsParent) {
  // Enough threads that the child frees their stacks.
  auto executor = std::make_unique<Executor>(16);
  const auto count = [&] {
    std::atomic<int> runs{0};
    const Status status = executor->ParallelFor(64, [&](size_t, int) {
      runs.fetch_add(1);
      return Status();
    });
    return status.ok() ? runs.load() : -1;
  };
  ASSERT_EQ(count(), 64);
  const ::pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    const bool is_fine = count() == 64;
    std::thread([] {}).join();
    executor.reset();
    ::_exit(is_fine ? 7 : 8);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(count(), 64);
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
