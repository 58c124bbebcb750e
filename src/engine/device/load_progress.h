// LoadProgress: the progress of a load that is made of many reads.
//
// Thread-safety: any thread; the caller's function runs under a lock, one call
// at a time. Ownership: borrows the options. Units: decoded bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "ground/record/call_record.h"
#include "holdfast/options.h"

namespace holdfast {

class LoadProgress {
 public:
  // Starts the phase "read" of this thread's call.
  LoadProgress(const RunOptions& run, uint64_t total_bytes)
      : progress_fn_(run.progress) {
    progress_ = {"read", 0, total_bytes};
    CallRecord* const call = CallRecord::OfThread();
    if (call != nullptr) call->StartLastPhase("read", total_bytes);
    Add(0);
  }

  // One of the reads, and what it adds.
  class Part {
   public:
    Part(LoadProgress& whole, uint64_t byte_count)
        : whole_(whole), byte_count_(byte_count) {}

    // Returns the read's own callback. Must not outlive this.
    ProgressFn Callback() {
      return [this](const Progress& progress) { Reach(progress.done_bytes); };
    }
    // All is read, though some formats report less.
    void Finish() { Reach(byte_count_); }

   private:
    // A read may start over for another phase: that adds nothing.
    void Reach(uint64_t done_bytes) {
      const uint64_t done = std::min(done_bytes, byte_count_);
      if (done <= done_bytes_) return;
      whole_.Add(done - done_bytes_);
      done_bytes_ = done;
    }

    LoadProgress& whole_;
    const uint64_t byte_count_;
    uint64_t done_bytes_ = 0;
  };

 private:
  void Add(uint64_t byte_count) {
    if (!progress_fn_) return;
    const std::lock_guard lock(mutex_);
    progress_.done_bytes += byte_count;
    progress_fn_(progress_);
  }

  const ProgressFn& progress_fn_;
  std::mutex mutex_;
  Progress progress_;
};

}  // namespace holdfast
