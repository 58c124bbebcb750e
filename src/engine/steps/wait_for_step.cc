// WaitForNewCheckpoint and CheckpointsIterator: wait for steps that other
// processes save.
#include <chrono>
#include <thread>
#include <utility>

#include "engine/commit/layout.h"
#include "engine/steps/snapshot.h"
#include "ground/base/status_macros.h"
#include "holdfast/steps/steps.h"
#include "holdfast/steps/wait_for_checkpoint.h"
#include "stores/place/directory_ops.h"

namespace holdfast {
namespace {

constexpr std::string_view kSnapshotsDirectory = "_SNAPSHOTS";

double SteadySeconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void SleepSeconds(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

WaitOptions Completed(WaitOptions options, const std::string& root) {
  if (!options.now_seconds) options.now_seconds = SteadySeconds;
  if (!options.sleep) options.sleep = SleepSeconds;
  if (options.snapshot_directory.empty()) {
    options.snapshot_directory = root + "/" + std::string(kSnapshotsDirectory);
  }
  return options;
}

class Pinned : public PinnedStep {
 public:
  Pinned(int64_t step, std::string path)
      : step_(step), path_(std::move(path)) {}
  Pinned(int64_t step, std::unique_ptr<Snapshot> snapshot)
      : step_(step), path_(snapshot->path()), snapshot_(std::move(snapshot)) {}

  int64_t step() const override { return step_; }
  const std::string& path() const override { return path_; }

 private:
  const int64_t step_;
  const std::string path_;
  const std::unique_ptr<Snapshot> snapshot_;
};

// Pins the step; null if it was removed.
Result<std::unique_ptr<PinnedStep>> Pin(const std::string& root,
                                        const ScannedStep& step,
                                        const WaitOptions& options) {
  const std::string path = root + "/" + step.name;
  if (options.snapshot) {
    auto snapshot = Snapshot::Make(path, options.snapshot_directory, step.name);
    if (snapshot.ok()) {
      return std::unique_ptr<PinnedStep>(
          std::make_unique<Pinned>(step.step, *std::move(snapshot)));
    }
  }
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(Place(path)));
  if (kind == PathKind::kMissing) return std::unique_ptr<PinnedStep>();
  return std::unique_ptr<PinnedStep>(std::make_unique<Pinned>(step.step, path));
}

// Pins the latest step if it has reached the wanted step; otherwise returns
// null.
Result<std::unique_ptr<PinnedStep>> LookForStep(const std::string& root,
                                                const WaitOptions& options) {
  ScanOptions scan;
  scan.format = options.format;
  HF_ASSIGN_OR_RETURN(const std::vector<ScannedStep> steps,
                      ScanSteps(root, scan));
  if (steps.empty()) return std::unique_ptr<PinnedStep>();
  const ScannedStep& latest = steps.back();
  if (options.until_step && latest.step < *options.until_step) {
    return std::unique_ptr<PinnedStep>();
  }
  return Pin(root, latest, options);
}

}  // namespace

Result<std::unique_ptr<PinnedStep>> WaitForNewCheckpoint(
    const std::string& root, const WaitOptions& options) {
  const std::string base = AbsolutePath(root);
  const WaitOptions wait = Completed(options, base);
  const double start = wait.now_seconds();
  while (true) {
    HF_ASSIGN_OR_RETURN(auto pinned, LookForStep(base, wait));
    if (pinned != nullptr) return pinned;
    if (wait.cancel != nullptr && wait.cancel->load()) {
      return CancelledError("wait for a step in " + base + ": cancelled");
    }
    const bool is_over =
        wait.timeout_seconds &&
        wait.now_seconds() + wait.poll_seconds > start + *wait.timeout_seconds;
    if (is_over && (!wait.timeout_fn || wait.timeout_fn())) return pinned;
    wait.sleep(wait.poll_seconds);
  }
}

CheckpointsIterator::CheckpointsIterator(std::string root, WaitOptions options,
                                         double min_interval_seconds)
    : root_(AbsolutePath(root)),
      options_(Completed(std::move(options), root_)),
      min_interval_seconds_(min_interval_seconds) {}

Result<PinnedStep*> CheckpointsIterator::Next() {
  current_.reset();
  if (last_seconds_) {
    const double wait =
        *last_seconds_ + min_interval_seconds_ - options_.now_seconds();
    if (wait > 0) options_.sleep(wait);
  }
  HF_ASSIGN_OR_RETURN(current_, WaitForNewCheckpoint(root_, options_));
  if (current_ == nullptr) return static_cast<PinnedStep*>(nullptr);
  options_.until_step = current_->step() + 1;
  last_seconds_ = options_.now_seconds();
  return current_.get();
}

}  // namespace holdfast
