// Run: the threads, byte budget, cancel flag and progress of one call.
//
// Thread-safety: any thread; the progress callback runs under a lock, one call
// at a time. Ownership: borrows RunOptions' flag and callback, and the record
// of the call. Units: bytes.
#pragma once

#include <chrono>
#include <mutex>
#include <string_view>

#include "ground/base/byte_budget.h"
#include "ground/base/cancel.h"
#include "ground/base/executor.h"
#include "ground/record/call_record.h"
#include "holdfast/options.h"

namespace holdfast {

// More threads than this waiting for a server would only cost memory.
inline constexpr int kWaitingThreadsMax = 64;

// The most scratch memory that a worker keeps between two uses.
inline constexpr size_t kKeptScratchBytesMax = 32 << 20;

class Run {
 public:
  // `requests_in_flight` is the number that the stores being read can handle.
  // If answers take time, more threads are started than there are CPUs, because
  // most of them wait. An explicit thread_count takes precedence.
  explicit Run(const RunOptions& options, int requests_in_flight = 1);

  Executor& executor() { return executor_; }
  ByteBudget& budget() { return budget_; }
  const CancelToken& cancel() const { return cancel_; }

  // Reports to the caller and to the call's record.
  void StartPhase(std::string_view phase, uint64_t total_bytes);
  void AddDone(uint64_t byte_count);
  // The call of the thread that made this object, or null.
  CallRecord* call() const { return call_; }

 private:
  Executor executor_;
  ByteBudget budget_;
  CancelToken cancel_;
  CallRecord* const call_ = CallRecord::OfThread();
  const ProgressFn progress_fn_;
  std::mutex progress_mutex_;
  Progress progress_;
};

// Adds up the memory that the tensors of a call take.
class MemoryNeed {
 public:
  // Returns ResourceExhausted when the total exceeds HostMemoryBytes().
  Status Add(uint64_t byte_count);

 private:
  uint64_t byte_count_ = 0;
};

// Measures the seconds since construction or the last Lap.
class Stopwatch {
 public:
  double Lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point last_ =
      std::chrono::steady_clock::now();
};

}  // namespace holdfast
