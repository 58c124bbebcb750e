// Executor: a fixed pool of threads, and the one way holdfast runs work in
// parallel: a blocking loop over independent items.
//
// Thread-safety: ParallelFor may be called from any thread; loops started from
// different threads share the pool. A loop inside a loop runs only in the
// calling worker (no deadlock). Where the system gives fewer threads than asked
// for, those that there are do the work, in the end the caller's own.
// Errors: the first failure (lowest index among those seen) is returned; items
// not yet started are skipped. bad_alloc in an item is ResourceExhausted.
#pragma once

#include <cstddef>
#include <functional>

#include "ground/base/cancel.h"
#include "ground/base/process_ptr.h"
#include "holdfast/status.h"

namespace holdfast {

class Executor {
 public:
  // 0 means one per available CPU. Threads are started by the first loop that
  // has work for them: calls of one item pay for none.
  explicit Executor(int thread_count = 0);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  int thread_count() const { return thread_count_; }

  // Calls fn(item, worker) once for each item in [0, item_count), items handed
  // out in increasing order. `worker` is in [0, thread_count()) and no two
  // items run at once with the same worker within this call: index scratch
  // space with it. The calling thread works too.
  Status ParallelFor(size_t item_count,
                     const std::function<Status(size_t item, int worker)>& fn,
                     const CancelToken* cancel = nullptr);

 private:
  struct Pool;
  int thread_count_;
  ProcessPtr<Pool> pool_;
};

}  // namespace holdfast
