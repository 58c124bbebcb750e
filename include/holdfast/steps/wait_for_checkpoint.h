// Waits for steps that another process saves: for programs that evaluate a run
// during training.
//
// Thread-safety: one thread per call and per iterator.
// Ownership: a PinnedStep keeps its files for its lifetime.
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
  // Called when the time is up: false continues waiting. Empty: gives up.
  std::function<bool()> timeout_fn;
  // Keep the step's files while the caller reads them, by hard links below
  // `<root>/_SNAPSHOTS`; where that is not possible, the step itself is
  // returned.
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

// Makes `snapshot`, an absolute path below an existing directory, from the
// files of the step at `source`: links, or copies if links are not possible. It
// appears complete. InvalidArgument with Orbax's messages; NotFound if the step
// is removed meanwhile.
Status CreateSnapshot(const std::string& source, const std::string& snapshot);
// Removes a snapshot. NotFound.
Status ReleaseSnapshot(const std::string& snapshot);

// Null when the time is up. Cancelled.
Result<std::unique_ptr<PinnedStep>> WaitForNewCheckpoint(
    const std::string& root, const WaitOptions& options = {});

// Returns each new latest step; a slow caller misses some.
//
//   CheckpointsIterator steps("/run", options);
//   while (true) {
//     auto next = steps.Next();       // releases the one before
//     if (!next.ok() || !*next) break;
//     Evaluate((*next)->path());
//   }
class CheckpointsIterator {
 public:
  CheckpointsIterator(std::string root, WaitOptions options,
                      double min_interval_seconds = 0);

  // Null when the time is up. The iterator owns the step until the next call.
  Result<PinnedStep*> Next();

 private:
  const std::string root_;
  WaitOptions options_;
  const double min_interval_seconds_;
  std::optional<double> last_seconds_;
  std::unique_ptr<PinnedStep> current_;
};

}  // namespace holdfast
