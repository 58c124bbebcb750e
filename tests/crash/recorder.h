// Recorder: a hook that records every change below a directory, in the order in
// which the system made them.
//
// While it is active, only one change is made at a time, so that the order is
// known although many threads make changes.
// Thread-safety: Run from any thread. Ownership: owns the record.
// Errors: none; calls that fail leave no record.
#pragma once

#include <mutex>
#include <string>

#include "crash/libc_calls.h"
#include "tools/powerloss/change_recorder.h"

namespace holdfast {

class Recorder : public CallHook {
 public:
  // The record starts with the files below `root`, which must exist.
  explicit Recorder(const std::string& root) : changes_(root) {}

  long Run(const FileCall& call, const std::function<long()>& make) override {
    if (!IsChange(call.kind)) return make();
    std::lock_guard lock(mutex_);
    const ChangeRecorder::Before before = changes_.Look(call);
    const long result = make();
    if (result >= 0) changes_.Note(call, before, result);
    return result;
  }
  // The changes recorded so far. REQUIRES: no call is being made.
  const DiskRecord& record() const { return changes_.record(); }

 private:
  std::mutex mutex_;
  ChangeRecorder changes_;
};

}  // namespace holdfast
