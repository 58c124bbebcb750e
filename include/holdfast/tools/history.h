// The history of a run: its steps as a log, and the first of them that is bad.
//
//   auto log = holdfast::ReadStepLog("/run");
//   for (const holdfast::LogEntry& entry : log->entries) ...
//
//   auto found = holdfast::Bisect("/run", "nan(params.*) or metric(loss) > 9");
//   if (found->first_bad) ...
//
// Bisect takes for granted that steps are good up to some step, and bad from
// there on. It looks at the newest step first, which must be bad, then at the
// oldest, which must be good, and then at the middle of what is left: of n
// steps at no more than log2(n) + 2, beside those that can be judged neither
// way (damaged, without the tensor): these are skipped, others near them are
// taken, and when they are all that is left between good and bad the answer is
// several candidates. In a step it reads only the tensors that a predicate
// names (doc/history.md has its grammar), and the metrics file.
// Thread-safety: any thread. Ownership: borrows everything for the call.
// Units: bytes, seconds; nanoseconds since 1970-01-01 UTC.
// Errors: NotFound (no root, no steps, none of the step asked for; a glob or a
// metric that no step has), InvalidArgument (a malformed predicate: says
// where), FailedPrecondition (the newest step is good, the oldest bad, or none
// of either kind: says what was found), Cancelled; any other failure to read
// except damage. Steps that cannot be read are in a log, with the reason.
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
  size_t step_count_max = 0;  // the newest; 0: all
  // The tensors that moved most since the step before: reads both steps whole.
  bool moved = false;
  size_t moved_count_max = 3;  // leaves a step
  // A file that keeps what was measured (holdfast/tools/stats_cache.h).
  std::optional<std::string> cache;
};

struct MovedLeaf {
  std::string name;
  double relative = 0;  // LeafDrift::relative
};

struct LogEntry {
  StepInfo step;
  // Numbers of the step's metrics, by their keys joined with '.'.
  std::map<std::string, double> metrics;
  // From the beginning of the save to its commit, where both are recorded.
  std::optional<double> save_seconds;
  // The committed step that `moved` is against; empty: none was compared.
  std::string moved_against;
  std::vector<MovedLeaf> moved;  // largest first; leaves that moved alone
  std::string moved_problem;     // why the two could not be compared
};

struct StepLog {
  // Newest step first; what is not committed before the step of its number.
  std::vector<LogEntry> entries;
  std::string cache_warning;  // why `cache` was left out, or not written
};

Result<StepLog> ReadStepLog(const std::string& root,
                            const LogOptions& options = {});

// --- Bisect ---

enum class StepVerdict : uint8_t {
  kGood,
  kBad,
  kSkip,  // can be judged neither way
};
// "good", "bad", "skip".
std::string_view StepVerdictName(StepVerdict verdict);

// The answer of a test about one step.
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
  // Only the steps from `good` to `bad` are looked at; both must be there.
  std::optional<int64_t> good;
  std::optional<int64_t> bad;
  // Told of each probe when it is done.
  std::function<void(const BisectProbe&)> on_probe;
};

struct BisectResult {
  // The first bad step; absent when skipped steps lie before it.
  std::optional<BisectStep> first_bad;
  // The first bad step is one of these, oldest first; the last one is bad, all
  // others were skipped.
  std::vector<BisectStep> candidates;
  BisectStep last_good;
  std::vector<BisectProbe> probes;  // in their order
  uint64_t step_count = 0;          // of the range
  uint64_t leaf_count = 0;          // read, all together
  uint64_t bytes = 0;
};

// Given the path of a step; a failure ends the search.
using StepTest = std::function<Result<StepAnswer>(const std::string& path)>;
Result<BisectResult> BisectBy(const std::string& root, const StepTest& test,
                              const BisectOptions& options = {});

// Asks `command`, which /bin/sh runs: with the step's path, as one argument,
// wherever it says "{}", and in the environment variable HOLDFAST_STEP. The
// path is never text for the shell; in single quotes, where it would be text of
// another program, FailedPrecondition for one with more than letters, digits
// and plain marks. Its exit status is as of `git bisect run`: 0 good, 125 skip,
// else up to 127 bad; any other ends the search (Cancelled). The command's
// output goes to standard error.
Result<BisectResult> BisectByCommand(const std::string& root,
                                     std::string_view command,
                                     const BisectOptions& options = {});

// Bad is a step of which `bad_if` is true.
Result<BisectResult> Bisect(const std::string& root, std::string_view bad_if,
                            const BisectOptions& options = {});

}  // namespace HOLDFAST_EXPORT
