// AsyncJob: a save of an AsyncCheckpointer, shared by the thread that runs it
// and the threads that ask about it.
//
// Thread-safety: all methods but Run from any thread.
// Ownership: shared. It owns everything it needs, so it can outlive the
// checkpointer if the save is stuck. Units: seconds.
// Errors: those of the save; DeadlineExceeded with the phase and the path.
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

  // Tells the job that the save is staged: everything that the caller may
  // change has been copied.
  void Staged(SaveSteps steps, std::vector<CommitFuture> futures);
  // Ends the job before it was staged. `status` is not ok, and the caller
  // reports it itself.
  void FailedToStage(const Status& status);
  // Runs the rest of the save, once, on the thread of the job. Removes an
  // uncommitted checkpoint before other threads see that the job has ended.
  void Run();

  void Cancel();
  // Waits until the job ends, or for the deadline. Returns false at the
  // deadline: the job then continues on its own, and will not commit unless it
  // has already begun to commit.
  bool WaitUntilDeadline();
  // Returns what WaitUntilDeadline would return now, without waiting.
  bool IsWithinDeadline();
  bool has_ended() const;
  bool is_in_progress() const;
  SaveState state() const;
  // Returns the error the first time, and then ok.
  Status TakeError();
  const std::string& path() const { return path_; }

 private:
  Status RunSteps();
  Status WaitForFutures();
  void StartPhase(std::string_view phase);
  // Must be called before the checkpoint becomes visible. Fails if the job may
  // no longer commit.
  Status EnterCommit();
  void End(const Status& status);
  void Expire();

  const std::shared_ptr<CheckpointHandler> handler_;
  const std::string path_;
  const double timeout_seconds_;
  const std::chrono::steady_clock::time_point deadline_;
  const std::function<void()> post_finalization_callback_;
  std::optional<SaveSteps> steps_;     // used only by the running thread
  std::vector<CommitFuture> futures_;  // used only by the running thread

  mutable std::mutex mutex_;
  std::condition_variable has_changed_;
  SaveState state_ = SaveState::kStaging;
  std::string_view phase_ = "stage";
  bool has_ended_ = false;
  bool is_expired_ = false;
  bool is_cancelled_ = false;
  Status error_;  // not reported yet
};

}  // namespace holdfast
