// Worker: the thread of `holdfast top` that calls the engine.
//
// It executes requests in order. Between requests it measures the open
// checkpoint tensor by tensor, in batches of about 16 MiB, within the memory
// limit of RunOptions. Any request interrupts a batch, which is read again
// later. kCancel, and a request to open another checkpoint, interrupt any job.
// Thread-safety: one thread calls Put. The worker's thread calls `post`.
// Ownership: the destructor cancels, and waits for the thread.
#pragma once

#include <functional>
#include <memory>

#include "cli/top/state.h"
#include "holdfast/options.h"
#include "holdfast/tools/stats_cache.h"

namespace holdfast::cli::top {

struct WorkerOptions {
  OpenOptions open;
  RunOptions run;  // without progress and cancel
  bool measures = true;
  StatsCache* cache = nullptr;  // borrowed; may be null
  std::function<void(Answer)> post;
};

class Worker {
 public:
  explicit Worker(WorkerOptions options);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void Put(Ask ask);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::cli::top
