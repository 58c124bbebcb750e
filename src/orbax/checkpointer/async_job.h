// AsyncJob: one save of an AsyncCheckpointer, shared by the thread that does it
// and those who ask for it.
//
// Thread-safety: all methods but Run from any thread.
// Ownership: shared; what it needs it owns, so that it can outlive the
// checkpointer when it is stuck. Units: seconds.
// Errors: those of the save; DeadlineExceeded naming phase and path.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/orbax/checkpointer.h"
#include "orbax/checkpointer/save_steps.h"

namespace holdfast {

class AsyncJob {
 public:
  AsyncJob(std::shared_ptr<CheckpointHandler> handler, std::string path,
           const AsyncOptions& options);

  // Call it when everything that the caller may change is copied.
  void Staged(SaveSteps steps, std::vector<CommitFuture> futures);
  // Ends the job before it was staged; `status`, which the caller reports
  // itself, is not Ok.
  void FailedToStage(const Status& status);
  // Does the rest, once, on the thread of the job. An uncommitted checkpoint is
  // removed before others see the end.
  void Run();

  void Cancel();
  // Waits for the end, or the deadline. False: the job goes on by itself, and
  // will not commit unless it has begun to.
  bool WaitUntilDeadline();
  // Does not wait: false when WaitUntilDeadline would return false.
  bool IsWithinDeadline();
  bool has_ended() const;
  bool is_in_progress() const;
  SaveState state() const;
  // Returns the error, once.
  Status TakeError();
  const std::string& path() const { return path_; }

 private:
  Status RunSteps();
  Status WaitForFutures();
  void StartPhase(std::string_view phase);
  // Asked before the checkpoint becomes visible: may it still?
  Status EnterCommit();
  void End(const Status& status);
  void Expire();

  const std::shared_ptr<CheckpointHandler> handler_;
  const std::string path_;
  const double timeout_seconds_;
  const std::chrono::steady_clock::time_point deadline_;
  const std::function<void()> post_finalization_callback_;
  std::optional<SaveSteps> steps_;     // of the running thread
  std::vector<CommitFuture> futures_;  // of the running thread

  mutable std::mutex mutex_;
  std::condition_variable has_changed_;
  SaveState state_ = SaveState::kStaging;
  std::string_view phase_ = "stage";
  bool has_ended_ = false;
  bool is_expired_ = false;
  bool is_cancelled_ = false;
  Status error_;  // not told yet
};

}  // namespace holdfast
