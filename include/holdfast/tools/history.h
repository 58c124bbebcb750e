// The history of a run: a log of its steps, and a search for the first bad
// step.
//
//   auto log = holdfast::ReadStepLog("/run");
//   for (const holdfast::LogEntry& entry : log->entries) ...
//
//   auto found = holdfast::Bisect("/run", "nan(params.*) or metric(loss) > 9");
//   if (found->first_bad) ...
//
// Bisect assumes that steps are good up to some step, and bad from there on. It
// tests the newest step, which must be bad, then the oldest, which must be
// good, and then repeatedly the middle of the remaining range. In each step it
// reads only the tensors that the predicate names (doc/history.md has its
// grammar), and the metrics file.
//
// A step that cannot be judged (damaged, or without the tensor) is skipped, and
// another step near it is tested. If only skipped steps remain between good and
// bad, the answer is several candidates. Not counting skipped steps, Bisect
// tests at most log2(n) + 2 of n steps.
//
// Thread-safety: any thread.
// Ownership: borrows everything for the call.
// Units: bytes, seconds; nanoseconds since 1970-01-01 UTC.
// Errors: NotFound (no root, no steps, no such step; a glob or a metric that no
// step has), InvalidArgument (a malformed predicate; says where),
// FailedPrecondition (the newest step is good, the oldest is bad, or too few
// steps could be judged to find a good and a bad one; says what was found),
// Cancelled; any other failure to read except damage. Steps that cannot be read
// are listed in the log, with the reason.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/export.h"
#include "holdfast/options.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

// --- Log ---

struct LogOptions {
  RunOptions run;             // phase "drift", with `moved`
  size_t step_count_max = 0;  // only the newest steps; 0: all
  // List the tensors that moved most since the previous step. Reads all steps
  // completely.
  bool moved = false;
  size_t moved_count_max = 3;  // leaves per step
  // A file that keeps measurements (holdfast/tools/stats_cache.h).
  std::optional<std::string> cache;
};

struct MovedLeaf {
  std::string name;
  double relative = 0;  // LeafDrift::relative
};

struct LogEntry {
  StepInfo step;
  // The numbers in the step's metrics, by their keys joined with '.'.
  std::map<std::string, double> metrics;
  // Time from the start of the save to its commit, if both are recorded.
  std::optional<double> save_seconds;
  // The name of the committed step that `moved` compares with; empty if there
  // was no comparison.
  std::string moved_against;
  std::vector<MovedLeaf> moved;  // largest first; only leaves that moved
  std::string moved_problem;     // why the two steps could not be compared
};

struct StepLog {
  // Newest step first; an uncommitted one comes before the committed step with
  // the same number.
  std::vector<LogEntry> entries;
  std::string cache_warning;  // why `cache` was ignored, or not written
};

Result<StepLog> ReadStepLog(const std::string& root,
                            const LogOptions& options = {});

// --- Bisect ---

enum class StepVerdict : uint8_t {
  kGood,
  kBad,
  kSkip,  // cannot be judged
};
// Returns the verdict's name: "good", "bad", "skip".
std::string_view StepVerdictName(StepVerdict verdict);

// The result of testing one step.
struct StepAnswer {
  StepVerdict verdict = StepVerdict::kSkip;
  std::string why;          // in words; may be empty
  uint64_t leaf_count = 0;  // tensors that were read
  uint64_t bytes = 0;       // of their elements
};

struct BisectStep {
  int64_t step = 0;
  std::string name;
  std::string path;
};

struct BisectProbe {
  BisectStep step;
  StepAnswer answer;
};

struct BisectOptions {
  RunOptions run;
  // Only the steps from `good` to `bad` are tested; both must exist.
  std::optional<int64_t> good;
  std::optional<int64_t> bad;
  // Called after each probe.
  std::function<void(const BisectProbe&)> on_probe;
};

struct BisectResult {
  // The first bad step; absent if it is preceded by skipped steps.
  std::optional<BisectStep> first_bad;
  // The first bad step is one of these, oldest first. The last of these is bad,
  // and all others were skipped.
  std::vector<BisectStep> candidates;
  BisectStep last_good;
  std::vector<BisectProbe> probes;  // in the order of testing
  uint64_t step_count = 0;          // in the range
  uint64_t leaf_count = 0;          // read by all probes together
  uint64_t bytes = 0;
};

// Tests the step at a path; a failure ends the search.
using StepTest = std::function<Result<StepAnswer>(const std::string& path)>;
Result<BisectResult> BisectBy(const std::string& root, const StepTest& test,
                              const BisectOptions& options = {});

// Tests steps with `command`, which /bin/sh runs. Each "{}" is replaced by the
// step's path as one argument, which the shell does not parse. The path is also
// in the environment variable HOLDFAST_STEP. If a "{}" is inside single quotes,
// where another program may parse it, a path with other characters than
// letters, digits and plain marks is FailedPrecondition.
//
// The exit status means the same as for `git bisect run`: 0 good, 125 skip, any
// other up to 127 bad; a higher status ends the search (Cancelled). The
// command's output is written to standard error.
Result<BisectResult> BisectByCommand(const std::string& root,
                                     std::string_view command,
                                     const BisectOptions& options = {});

// Tests steps with the predicate `bad_if`: a step is bad if it is true.
Result<BisectResult> Bisect(const std::string& root, std::string_view bad_if,
                            const BisectOptions& options = {});

}  // namespace HOLDFAST_EXPORT
