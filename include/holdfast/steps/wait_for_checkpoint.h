// Waits for steps that another process saves: for programs that evaluate a run
// while it trains.
//
// Thread-safety: one thread a call and an iterator.
// Ownership: a PinnedStep keeps its files until it is gone.
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
  // Null: every format, as Orbax's checkpoint_steps.
  std::shared_ptr<const StepNameFormat> format;
  std::optional<int64_t> until_step;  // at least this one
  double poll_seconds = 1;
  std::optional<double> timeout_seconds;
  // Called when the time is over: false means to wait on. Empty: gives up.
  std::function<bool()> timeout_fn;
  // Keep the step's files while the caller reads them, by hard links below
  // `<root>/_SNAPSHOTS`; where that cannot be, the step itself is given.
  bool snapshot = true;
  std::string snapshot_directory;             // empty: `<root>/_SNAPSHOTS`
  const std::atomic<bool>* cancel = nullptr;  // borrowed
  // For tests: how time passes. Empty: the real clock, and sleep.
  std::function<double()> now_seconds;
  std::function<void(double seconds)> sleep;
};

// A step that stays readable while this exists.
class PinnedStep {
 public:
  virtual ~PinnedStep() = default;
  virtual int64_t step() const = 0;
  virtual const std::string& path() const = 0;
};

// Makes `snapshot`, an absolute path below a directory that exists, of the
// files of the step at `source`: links, or copies where there are no links. It
// appears whole. InvalidArgument with Orbax's texts; NotFound when the step
// goes meanwhile.
Status CreateSnapshot(const std::string& source, const std::string& snapshot);
// Removes one. NotFound.
Status ReleaseSnapshot(const std::string& snapshot);

// Null when the time is over. Cancelled.
Result<std::unique_ptr<PinnedStep>> WaitForNewCheckpoint(
    const std::string& root, const WaitOptions& options = {});

// Each new latest step as it comes; a caller that is slow misses some.
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

  // Null when the time is over. The step is the iterator's until the next call.
  Result<PinnedStep*> Next();

 private:
  const std::string root_;
  WaitOptions options_;
  const double min_interval_seconds_;
  std::optional<double> last_seconds_;
  std::unique_ptr<PinnedStep> current_;
};

}  // namespace holdfast
