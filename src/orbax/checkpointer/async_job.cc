#include "orbax/checkpointer/async_job.h"

#include <algorithm>
#include <exception>
#include <sstream>
#include <utility>

#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

// Longer than any caller waits, and small enough for a clock.
constexpr double kTimeoutSecondsMax = 1e8;

std::chrono::steady_clock::time_point DeadlineIn(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(
             std::chrono::duration<double>(
                 std::min(seconds, kTimeoutSecondsMax)));
}

// Returns the result. A user's own handler may have thrown, or abandoned its
// promise.
Status ResultOf(const CommitFuture& future) {
  try {
    return future.get();
  } catch (const std::exception& error) {
    return InternalError(std::string("the handler failed: ") + error.what());
  }
}

std::string SecondsText(double seconds) {
  std::ostringstream text;
  text << seconds;
  return text.str();
}

}  // namespace

AsyncJob::AsyncJob(std::shared_ptr<CheckpointHandler> handler, std::string path,
                   const AsyncOptions& options)
    : handler_(std::move(handler)),
      path_(std::move(path)),
      timeout_seconds_(options.timeout_seconds),
      deadline_(DeadlineIn(options.timeout_seconds)),
      post_finalization_callback_(options.post_finalization_callback) {}

void AsyncJob::Staged(SaveSteps steps, std::vector<CommitFuture> futures) {
  steps_ = std::move(steps);
  futures_ = std::move(futures);
  const std::lock_guard lock(mutex_);
  state_ = SaveState::kStaged;
  phase_ = "write";
  // Cancel was called during staging, when it left the handler alone.
  if (is_cancelled_) handler_->Cancel();
}

void AsyncJob::FailedToStage(const Status& status) {
  End(status);
  (void)TakeError();
}

void AsyncJob::Run() {
  const Status status = CatchBadAlloc([&] { return RunSteps(); });
  futures_.clear();
  steps_.reset();
  End(status);
}

Status AsyncJob::RunSteps() {
  HF_RETURN_IF_ERROR(steps_->Agree("written", WaitForFutures()));
  StartPhase("finalize");
  HF_RETURN_IF_ERROR(steps_->Finalize());
  if (steps_->is_primary() && post_finalization_callback_) {
    post_finalization_callback_();
  }
  HF_RETURN_IF_ERROR(steps_->Agree("complete", EnterCommit()));
  return steps_->Commit();
}

// Waits for all futures, even after a failure, because no writer may still be
// running when the directory is removed.
Status AsyncJob::WaitForFutures() {
  Status first;
  for (const CommitFuture& future : futures_) {
    const Status status = ResultOf(future);
    if (first.ok()) first = status;
  }
  const std::lock_guard lock(mutex_);
  if (first.ok() && is_cancelled_) return CancelledError("save to " + path_);
  return first;
}

void AsyncJob::StartPhase(std::string_view phase) {
  const std::lock_guard lock(mutex_);
  phase_ = phase;
}

Status AsyncJob::EnterCommit() {
  const std::lock_guard lock(mutex_);
  if (is_cancelled_ || is_expired_) {
    return CancelledError("save to " + path_);
  }
  phase_ = "commit";
  return Status();
}

void AsyncJob::End(const Status& status) {
  const std::lock_guard lock(mutex_);
  has_ended_ = true;
  if (status.ok()) {
    state_ = SaveState::kDurable;
  } else if (is_cancelled_ && !is_expired_) {
    state_ = SaveState::kCancelled;
  } else {
    state_ = SaveState::kFailed;
    // The caller was already told of the deadline.
    if (!is_expired_) error_ = status;
  }
  has_changed_.notify_all();
}

void AsyncJob::Cancel() {
  const std::lock_guard lock(mutex_);
  if (has_ended_) return;
  is_cancelled_ = true;
  // While the save is being staged, the handler belongs to the saving thread.
  if (state_ == SaveState::kStaged) handler_->Cancel();
}

bool AsyncJob::WaitUntilDeadline() {
  std::unique_lock lock(mutex_);
  if (is_expired_) return has_ended_;
  const bool has_ended =
      has_changed_.wait_until(lock, deadline_, [&] { return has_ended_; });
  if (!has_ended) Expire();
  return has_ended;
}

bool AsyncJob::IsWithinDeadline() {
  const std::lock_guard lock(mutex_);
  if (has_ended_) return true;
  if (!is_expired_ && std::chrono::steady_clock::now() >= deadline_) Expire();
  return !is_expired_;
}

// REQUIRES: mutex_ is held.
void AsyncJob::Expire() {
  is_expired_ = true;
  state_ = SaveState::kFailed;
  std::string message = "save to " + path_ + ": not finished within " +
                        SecondsText(timeout_seconds_) + " seconds: phase \"" +
                        std::string(phase_) + "\" is still running";
  if (phase_ == "commit") message += ", and may still succeed";
  error_ = DeadlineExceededError(std::move(message));
  handler_->Cancel();
}

bool AsyncJob::has_ended() const {
  const std::lock_guard lock(mutex_);
  return has_ended_;
}

bool AsyncJob::is_in_progress() const {
  const std::lock_guard lock(mutex_);
  return !has_ended_ && !is_expired_;
}

SaveState AsyncJob::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

Status AsyncJob::TakeError() {
  const std::lock_guard lock(mutex_);
  return std::exchange(error_, Status());
}

}  // namespace holdfast
