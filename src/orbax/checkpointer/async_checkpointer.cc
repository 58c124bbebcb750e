#include <cmath>
#include <sstream>
#include <system_error>
#include <thread>

#include "engine/commit/layout.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "holdfast/orbax/checkpointer.h"
#include "orbax/checkpointer/async_job.h"

namespace holdfast {
namespace {

class BackgroundCheckpointer final : public AsyncCheckpointer {
 public:
  BackgroundCheckpointer(std::shared_ptr<CheckpointHandler> handler,
                         std::shared_ptr<ProcessGroup> group,
                         AsyncOptions async_options,
                         CheckpointerOptions options)
      : handler_(std::move(handler)),
        group_(std::move(group)),
        async_options_(std::move(async_options)),
        options_(std::move(options)) {}

  ~BackgroundCheckpointer() override {
    (void)WaitUntilFinished();
    if (thread_.joinable()) thread_.detach();  // it is stuck
  }

  Status Save(const std::string& path, const CheckpointArgs& args,
              const CheckpointerSaveOptions& save_options) override {
    HF_RETURN_IF_ERROR(BecomeIdle());
    const auto job = std::make_shared<AsyncJob>(handler_, AbsolutePath(path),
                                                async_options_);
    // Called before staging, so that Cancel from another thread finds the job.
    Remember(job);
    const Status staged =
        CatchBadAlloc([&] { return Stage(*job, args, save_options); });
    if (!staged.ok()) {
      job->FailedToStage(staged);
      return staged;
    }
    Start(job);
    return Status();
  }

  Result<Tree> Restore(const std::string& path,
                       const CheckpointArgs* args) override {
    HF_RETURN_IF_ERROR(BecomeIdle());
    return RestoreWith(*handler_, group_.get(), options_.commit_mode,
                       AbsolutePath(path), args);
  }

  Result<StepMetadata> Metadata(const std::string& path) override {
    HF_RETURN_IF_ERROR(BecomeIdle());
    return CatchBadAlloc(
        [&] { return ReadMetadataWith(*handler_, AbsolutePath(path)); });
  }

  Status Close() override {
    if (is_closed_) return Status();
    const Status status = WaitUntilFinished();
    is_closed_ = true;
    // A thread that missed its deadline may still use the handler.
    if (!thread_.joinable()) handler_->Close();
    return status;
  }

  Status WaitUntilFinished() override {
    const std::shared_ptr<AsyncJob> job = this->job();
    if (job == nullptr) return Status();
    if (job->WaitUntilDeadline() && thread_.joinable()) thread_.join();
    return job->TakeError();
  }

  Status CheckForErrors() override {
    const std::shared_ptr<AsyncJob> job = this->job();
    if (job == nullptr) return Status();
    // This makes a job fail that has missed its deadline.
    (void)job->IsWithinDeadline();
    return job->TakeError();
  }

  bool IsSavingInProgress() const override {
    const std::shared_ptr<AsyncJob> job = this->job();
    return job != nullptr && job->is_in_progress();
  }

  SaveState state() const override {
    const std::shared_ptr<AsyncJob> job = this->job();
    return job == nullptr ? SaveState::kNone : job->state();
  }

  void Cancel() override {
    const std::shared_ptr<AsyncJob> job = this->job();
    if (job != nullptr) job->Cancel();
  }

  const std::shared_ptr<CheckpointHandler>& handler() const override {
    return handler_;
  }

 private:
  // Waits for the last save. If it returns ok, only the caller uses the
  // handler.
  Status BecomeIdle() {
    if (is_closed_) {
      return FailedPreconditionError("the checkpointer is closed");
    }
    HF_RETURN_IF_ERROR(WaitUntilFinished());
    if (!thread_.joinable()) return Status();
    return FailedPreconditionError(
        "save to " + job()->path() +
        ": it has missed its deadline and is still running");
  }

  Status Stage(AsyncJob& job, const CheckpointArgs& args,
               const CheckpointerSaveOptions& save_options) {
    HF_ASSIGN_OR_RETURN(
        SaveSteps steps,
        SaveSteps::Begin(handler_, group_, options_, job.path(), save_options));
    Result<std::vector<CommitFuture>> futures =
        handler_->AsyncSave(steps.directory(), args);
    if (!futures.ok()) {
      // The other processes get the error when they wait for the written files.
      (void)steps.Agree("written", futures.status());
      return futures.status();
    }
    job.Staged(std::move(steps), std::move(futures).value());
    return Status();
  }

  // Starts a thread, or runs the job on this thread if the system cannot start
  // one.
  void Start(const std::shared_ptr<AsyncJob>& job) {
    try {
      thread_ = std::thread([job] { job->Run(); });
    } catch (const std::system_error&) {
      job->Run();
    }
  }

  void Remember(std::shared_ptr<AsyncJob> job) {
    const std::lock_guard lock(mutex_);
    job_ = std::move(job);
  }

  std::shared_ptr<AsyncJob> job() const {
    const std::lock_guard lock(mutex_);
    return job_;
  }

  const std::shared_ptr<CheckpointHandler> handler_;
  const std::shared_ptr<ProcessGroup> group_;
  const AsyncOptions async_options_;
  const CheckpointerOptions options_;
  bool is_closed_ = false;
  std::thread thread_;  // joinable: the job is running, or was not joined
  mutable std::mutex mutex_;
  std::shared_ptr<AsyncJob> job_;  // the latest job; null before the first
};

}  // namespace

std::string_view SaveStateName(SaveState state) {
  switch (state) {
    case SaveState::kNone:
      return "none";
    case SaveState::kStaging:
      return "staging";
    case SaveState::kStaged:
      return "staged";
    case SaveState::kDurable:
      return "durable";
    case SaveState::kFailed:
      return "failed";
    case SaveState::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

Result<std::unique_ptr<AsyncCheckpointer>> AsyncCheckpointer::Make(
    std::shared_ptr<CheckpointHandler> handler, AsyncOptions async_options,
    CheckpointerOptions options) {
  if (handler == nullptr) return InvalidArgumentError("handler is null");
  if (!(async_options.timeout_seconds > 0)) {
    std::ostringstream message;
    message << "Timeout must be positive, but got "
            << async_options.timeout_seconds << " seconds.";
    return InvalidArgumentError(message.str());
  }
  HF_ASSIGN_OR_RETURN(auto group, SavingGroup(options.multiprocessing_options));
  return std::unique_ptr<AsyncCheckpointer>(
      std::make_unique<BackgroundCheckpointer>(
          std::move(handler), std::move(group), std::move(async_options),
          std::move(options)));
}

}  // namespace holdfast
