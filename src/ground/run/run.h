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

// More threads than this that wait for a server only take memory.
inline constexpr int kWaitingThreadsMax = 64;

// A worker keeps at most this much scratch memory between two uses.
inline constexpr size_t kKeptScratchBytesMax = 32 << 20;

class Run {
 public:
  // `requests_in_flight` is that of the stores it reads from. Where an answer
  // takes a while, more threads are started than there are CPUs, as they mostly
  // wait; an explicit thread_count wins.
  explicit Run(const RunOptions& options, int requests_in_flight = 1);

  Executor& executor() { return executor_; }
  ByteBudget& budget() { return budget_; }
  const CancelToken& cancel() const { return cancel_; }

  // Told to the caller, and to the call's record.
  void StartPhase(std::string_view phase, uint64_t total_bytes);
  void AddDone(uint64_t byte_count);
  // That of the thread that made this object; null: none.
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

// The memory of the machine: no array can be larger. Units: bytes.
uint64_t PhysicalMemoryBytes();
// How much memory the tensors of a call take, one after the other.
class MemoryNeed {
 public:
  // ResourceExhausted when all that was added takes more than the machine has.
  Status Add(uint64_t byte_count);

 private:
  uint64_t byte_count_ = 0;
};

// Seconds since construction or the last Lap.
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
