// Waits for steps that another process saves, for programs that evaluate a run
// during training.
//
// Thread-safety: one thread per call and per iterator.
// Ownership: a PinnedStep keeps the step's files for its lifetime.
// Units: seconds.
// Errors: Cancelled, those of the file system.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "holdfast/export.h"
#include "holdfast/status.h"
#include "holdfast/steps/step_names.h"

namespace holdfast HOLDFAST_EXPORT {

struct WaitOptions {
  // Null: every format that Orbax's checkpoint_steps accepts.
  std::shared_ptr<const StepNameFormat> format;
  std::optional<int64_t> until_step;  // at least this step
  double poll_seconds = 1;
  std::optional<double> timeout_seconds;
  // Called when the time is up; the wait continues if it returns false. Empty:
  // the wait ends.
  std::function<bool()> timeout_fn;
  // Keep the step's files while the caller reads them, by hard links below
  // `<root>/_SNAPSHOTS`. If that is not possible, the step itself is returned.
  bool snapshot = true;
  std::string snapshot_directory;             // empty: `<root>/_SNAPSHOTS`
  const std::atomic<bool>* cancel = nullptr;  // borrowed
  // For tests: replaces the clock and sleep. Empty: the real ones.
  std::function<double()> now_seconds;
  std::function<void(double seconds)> sleep;
};

// A step that stays readable as long as this object exists.
class PinnedStep {
 public:
  virtual ~PinnedStep() = default;
  virtual int64_t step() const = 0;
  virtual const std::string& path() const = 0;
};

// Makes the directory `snapshot`, an absolute path in an existing directory,
// with links to the files of the step at `source`, or copies if links are not
// possible. It appears complete. InvalidArgument with Orbax's messages;
// NotFound if the step is removed in the meantime.
Status CreateSnapshot(const std::string& source, const std::string& snapshot);
// Removes a snapshot. NotFound if it does not exist.
Status ReleaseSnapshot(const std::string& snapshot);

// Waits for a new step. Returns null when the time is up. Cancelled.
Result<std::unique_ptr<PinnedStep>> WaitForNewCheckpoint(
    const std::string& root, const WaitOptions& options = {});

// Returns each new latest step. A slow caller misses some steps.
//
//   CheckpointsIterator steps("/run", options);
//   while (true) {
//     auto next = steps.Next();       // releases the previous step
//     if (!next.ok() || !*next) break;
//     Evaluate((*next)->path());
//   }
class CheckpointsIterator {
 public:
  CheckpointsIterator(std::string root, WaitOptions options,
                      double min_interval_seconds = 0);

  // Waits for a step; returns null when the time is up. The iterator owns the
  // step until the next call.
  Result<PinnedStep*> Next();

 private:
  const std::string root_;
  WaitOptions options_;
  const double min_interval_seconds_;
  std::optional<double> last_seconds_;
  std::unique_ptr<PinnedStep> current_;
};

}  // namespace holdfast
