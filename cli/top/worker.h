// The one thread of `holdfast top` that asks the engine.
//
// It takes what is asked in turn; what is open is measured in the time between,
// tensor by tensor in batches of about 16 MiB, in the memory of RunOptions.
// Whatever is asked cuts a batch off, which is read again later; another
// checkpoint to open, and kCancel, cut off anything.
// Thread-safety: Put from one thread; `post` is called from the worker's.
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
  StatsCache* cache = nullptr;  // or none; borrowed
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
