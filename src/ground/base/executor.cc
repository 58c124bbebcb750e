#include "ground/base/executor.h"

#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ground/base/no_throw.h"
#include "ground/base/start_threads.h"

namespace holdfast {
namespace {

// True on pool threads and inside any loop: a nested loop then runs only in its
// own thread.
thread_local bool in_parallel_loop = false;

int AvailableCpuCount() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  const int count = CPU_COUNT(&set);
  return count < 1 ? 1 : count;
}

// One ParallelFor call; workers take the next item until none are left.
struct Loop {
  size_t item_count;
  const std::function<Status(size_t, int)>* fn;
  const CancelToken* cancel;

  std::atomic<size_t> next_item{0};
  std::atomic<bool> stopped{false};
  std::atomic<int> next_worker{0};

  std::mutex mutex;
  std::condition_variable finished;
  int active_worker_count = 0;
  size_t failed_item = std::numeric_limits<size_t>::max();
  Status failure;

  void Fail(size_t item, Status status) {
    std::lock_guard lock(mutex);
    stopped.store(true, std::memory_order_relaxed);
    // The failure with the lowest index wins, so that one failing item gives
    // the same message for any number of threads.
    if (item >= failed_item) return;
    failed_item = item;
    failure = std::move(status);
  }

  void Work() {
    size_t item = 0;
    try {
      const int worker = next_worker.fetch_add(1);
      while (!stopped.load(std::memory_order_relaxed)) {
        item = next_item.fetch_add(1);
        if (item >= item_count) return;
        Status status = cancel != nullptr ? cancel->Check() : Status();
        if (status.ok()) status = (*fn)(item, worker);
        if (!status.ok()) Fail(item, std::move(status));
      }
    } catch (const std::bad_alloc&) {
      Fail(item, OutOfMemoryError());
    } catch (const std::exception& error) {
      Fail(item, CatchBadAlloc([&] {
             return InternalError("an item of a parallel loop threw: " +
                                  std::string(error.what()));
           }));
    }
  }

  bool HasWork() const {
    return !stopped.load(std::memory_order_relaxed) &&
           next_item.load(std::memory_order_relaxed) < item_count;
  }
};

}  // namespace

struct Executor::Pool {
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::shared_ptr<Loop>> invitations;
  bool closing = false;
  std::vector<std::thread> threads;

  ~Pool() {
    {
      std::lock_guard lock(mutex);
      closing = true;
    }
    wake.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  void Invite(const std::shared_ptr<Loop>& loop, size_t helper_count) {
    {
      std::lock_guard lock(mutex);
      if (threads.size() < helper_count) {
        StartThreads(helper_count - threads.size(), threads, [this] { Run(); });
        helper_count = std::min(helper_count, threads.size());
      }
      try {
        for (size_t i = 0; i < helper_count; ++i) invitations.push_back(loop);
      } catch (const std::bad_alloc&) {
        // The caller's thread works too, so fewer helpers only cost time.
      }
    }
    wake.notify_all();
  }

  void Run() {
    in_parallel_loop = true;
    while (true) {
      std::shared_ptr<Loop> loop;
      {
        std::unique_lock lock(mutex);
        wake.wait(lock, [&] { return closing || !invitations.empty(); });
        // The pool is closing, and no loop is left to join.
        if (invitations.empty()) return;
        loop = std::move(invitations.front());
        invitations.pop_front();
      }
      Join(*loop);
    }
  }

  // Lets a worker join the loop. If the caller has returned, it has set
  // next_item to the end. HasWork is then false, so `fn`, which no longer
  // exists, is not called.
  static void Join(Loop& loop) {
    {
      std::lock_guard lock(loop.mutex);
      if (!loop.HasWork()) return;
      ++loop.active_worker_count;
    }
    loop.Work();
    std::lock_guard lock(loop.mutex);
    if (--loop.active_worker_count == 0) loop.finished.notify_all();
  }
};

Executor::Executor(int thread_count)
    : thread_count_(thread_count > 0 ? thread_count : AvailableCpuCount()) {
  if (thread_count_ > 1) pool_ = MakeInProcess<Pool>();
}

Executor::~Executor() = default;

Status Executor::ParallelFor(size_t item_count,
                             const std::function<Status(size_t, int)>& fn,
                             const CancelToken* cancel) {
  auto loop = std::make_shared<Loop>();
  loop->item_count = item_count;
  loop->fn = &fn;
  loop->cancel = cancel;
  const bool alone = pool_ == nullptr || in_parallel_loop || item_count < 2;
  if (!alone) {
    const auto helper_count_max = static_cast<size_t>(thread_count_ - 1);
    pool_->Invite(loop, std::min(helper_count_max, item_count - 1));
  }
  const bool was_in_loop = std::exchange(in_parallel_loop, true);
  loop->Work();
  in_parallel_loop = was_in_loop;
  std::unique_lock lock(loop->mutex);
  // `fn` is destroyed after this function returns, so late helpers must find no
  // items.
  loop->next_item.store(item_count, std::memory_order_relaxed);
  loop->finished.wait(lock, [&] { return loop->active_worker_count == 0; });
  return loop->failure;
}

}  // namespace holdfast
