// Executor: a fixed pool of threads that runs blocking loops over independent
// items.
//
// Thread-safety: ParallelFor may be called from any thread; loops started from
// different threads share the pool. A loop inside a loop runs only in the
// calling worker (no deadlock). If the system provides fewer threads than
// requested, the work runs on the available ones, at worst only on the
// caller's.
// Errors: returns the first failure (lowest index among those seen) and skips
// items not yet started. bad_alloc in an item becomes ResourceExhausted, any
// other std::exception Internal.
#pragma once

#include <cstddef>
#include <functional>

#include "ground/base/cancel.h"
#include "ground/base/process_ptr.h"
#include "holdfast/status.h"

namespace holdfast {

class Executor {
 public:
  // 0 means one thread per available CPU. Threads are started by the first loop
  // that has work for them, so calls with one item start none.
  explicit Executor(int thread_count = 0);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  int thread_count() const { return thread_count_; }

  // Calls fn(item, worker) once for each item in [0, item_count), handing items
  // out in increasing order. `worker` is in [0, thread_count()); within this
  // call no two items run concurrently with the same worker, so it can index
  // scratch space. The calling thread works too.
  Status ParallelFor(size_t item_count,
                     const std::function<Status(size_t item, int worker)>& fn,
                     const CancelToken* cancel = nullptr);

 private:
  struct Pool;
  int thread_count_;
  ProcessPtr<Pool> pool_;
};

}  // namespace holdfast
