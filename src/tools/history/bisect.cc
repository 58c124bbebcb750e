// BisectBy, BisectByCommand and Bisect.
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "engine/restore/leaf_request.h"
#include "ground/base/no_throw.h"
#include "ground/base/shell_command.h"
#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "holdfast/steps/steps.h"
#include "holdfast/tools/glob.h"
#include "holdfast/tools/history.h"
#include "holdfast/tools/stats.h"
#include "stores/place/place.h"
#include "tools/history/bisect_search.h"
#include "tools/history/predicate.h"

namespace holdfast {
namespace {

// The number of leaf or metric names that an error repeats.
constexpr size_t kNamesShownMax = 8;

// The exit code that means "skip", as in `git bisect run`.
constexpr int kSkipCode = 125;
constexpr int kBadCodeMax = 127;
// The variable that passes the step's path to a bisection's command.
constexpr std::string_view kStepVariable = "HOLDFAST_STEP";

// Returns the answer of a command that ended with `status`, as waitpid reports
// it.
Result<StepAnswer> AnswerOf(int status) {
  if (!WIFEXITED(status)) {
    return CancelledError("--run: the command was ended by signal " +
                          std::to_string(WTERMSIG(status)));
  }
  const int code = WEXITSTATUS(status);
  if (code > kBadCodeMax) {
    return CancelledError("--run: the command ended with " +
                          std::to_string(code) +
                          ", which stops the search (want 0 to 127)");
  }
  StepAnswer answer;
  answer.why = "the command ended with " + std::to_string(code);
  if (code == 126 || code == 127) {
    answer.why += ", as the shell does when it cannot run it";
  }
  answer.verdict = code == 0           ? StepVerdict::kGood
                   : code == kSkipCode ? StepVerdict::kSkip
                                       : StepVerdict::kBad;
  return answer;
}

std::string BisectLabel(const BisectProbe& probe) {
  return "step " + std::to_string(probe.step.step) +
         (probe.answer.why.empty() ? "" : " (" + probe.answer.why + ")");
}

// Returns the committed steps from `good` to `bad`, oldest first, one for each
// step number.
Result<std::vector<BisectStep>> RangeOf(const std::string& root,
                                        const BisectOptions& options) {
  HF_ASSIGN_OR_RETURN(const auto scanned,
                      ScanSteps(root, {.read_metadata = false}));
  const Place place = Place(root).Absolute();
  std::vector<BisectStep> steps;
  for (const ScannedStep& step : scanned) {
    // If a step has two directories, the last one counts, as it does in Open.
    if (!steps.empty() && steps.back().step == step.step) steps.pop_back();
    steps.push_back({step.step, step.name, (place / step.name).path()});
  }
  if (steps.empty()) return NotFoundError("bisect: no steps in " + root);
  for (const auto& end : {options.good, options.bad}) {
    if (!end || std::any_of(steps.begin(), steps.end(), [&](const auto& step) {
          return step.step == *end;
        })) {
      continue;
    }
    return NotFoundError("bisect " + root + ": no step " +
                         std::to_string(*end) + "; there are " +
                         std::to_string(steps.size()) + " from " +
                         std::to_string(steps.front().step) + " to " +
                         std::to_string(steps.back().step));
  }
  if (options.good && options.bad && *options.good >= *options.bad) {
    return InvalidArgumentError(
        "bisect " + root + ": the good step, " + std::to_string(*options.good) +
        ", is not before the bad one, " + std::to_string(*options.bad));
  }
  std::erase_if(steps, [&](const BisectStep& step) {
    return (options.good && step.step < *options.good) ||
           (options.bad && step.step > *options.bad);
  });
  return steps;
}

class Bisector {
 public:
  Bisector(const std::string& root, const StepTest& test,
           const BisectOptions& options)
      : root_(root), test_(test), options_(options) {}

  Result<BisectResult> Run() {
    HF_ASSIGN_OR_RETURN(steps_, RangeOf(root_, options_));
    result_.step_count = steps_.size();
    HF_ASSIGN_OR_RETURN(
        const SearchResult found,
        SearchFirstBad(steps_.size(), [&](size_t i) { return Probe(i); }));
    HF_RETURN_IF_ERROR(CheckEnds(found));
    result_.last_good = steps_[found.good];
    for (size_t i = found.good + 1; i <= found.bad; ++i) {
      result_.candidates.push_back(steps_[i]);
    }
    if (result_.candidates.size() == 1) {
      result_.first_bad = result_.candidates[0];
    }
    return std::move(result_);
  }

 private:
  Result<StepVerdict> Probe(size_t i) {
    if (options_.run.cancel != nullptr && options_.run.cancel->load()) {
      return CancelledError("bisect " + root_);
    }
    BisectProbe probe{steps_[i], {}};
    HF_ASSIGN_OR_RETURN(probe.answer, test_(probe.step.path));
    result_.leaf_count += probe.answer.leaf_count;
    result_.bytes += probe.answer.bytes;
    if (options_.on_probe) options_.on_probe(probe);
    const StepVerdict verdict = probe.answer.verdict;
    result_.probes.push_back(std::move(probe));
    return verdict;
  }

  const BisectProbe& ProbeOf(size_t i) const {
    return *std::find_if(
        result_.probes.begin(), result_.probes.end(),
        [&](const BisectProbe& p) { return p.step.step == steps_[i].step; });
  }

  Status CheckEnds(const SearchResult& found) const {
    using Kind = SearchResult::Kind;
    const std::string what = "bisect " + root_ + ": ";
    switch (found.kind) {
      case Kind::kFound:
        return Status();
      case Kind::kNewestIsGood:
        return FailedPreconditionError(
            what + "the newest step must be bad, and is good: " +
            BisectLabel(ProbeOf(found.good)));
      case Kind::kOldestIsBad:
        return FailedPreconditionError(
            what + "the oldest step must be good, and is bad: " +
            BisectLabel(ProbeOf(found.bad)));
      case Kind::kAllSkipped:
        return FailedPreconditionError(what + "none of " +
                                       std::to_string(steps_.size()) +
                                       " steps could be judged; the newest, " +
                                       BisectLabel(result_.probes.front()));
      case Kind::kNoGood:
        return FailedPreconditionError(
            what + "step " + std::to_string(steps_[found.bad].step) +
            " is bad, and none before it could be judged; the oldest, " +
            BisectLabel(ProbeOf(0)));
    }
    return InternalError("bisect: an unknown end");
  }

  const std::string root_;
  const StepTest& test_;
  const BisectOptions& options_;
  std::vector<BisectStep> steps_;
  BisectResult result_;
};

std::string ValueText(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", value);
  return text;
}

double AsDouble(const Scalar& value) {
  switch (value.dtype) {
    case DType::kUint64:
      return static_cast<double>(value.As<uint64_t>());
    case DType::kInt64:
      return static_cast<double>(value.As<int64_t>());
    default:
      return value.As<double>();
  }
}

// The values of one step. Only those that terms need are read.
class StepValues {
 public:
  StepValues(const Predicate& predicate, std::string path,
             const RunOptions& run)
      : predicate_(predicate), path_(std::move(path)), run_(run) {}

  Result<std::optional<double>> Value(size_t index) {
    const PredicateTerm& term = predicate_.terms()[index];
    HF_ASSIGN_OR_RETURN(const std::optional<double> value,
                        term.kind == TermKind::kMetric
                            ? MetricValue(term, index)
                            : LeavesValue(term, index));
    if (value) Say(term.Name() + " is " + ValueText(*value));
    return value;
  }

  StepAnswer Answer(const std::optional<bool>& is_bad) && {
    answer_.verdict = !is_bad   ? StepVerdict::kSkip
                      : *is_bad ? StepVerdict::kBad
                                : StepVerdict::kGood;
    answer_.leaf_count = stats_.size();
    return std::move(answer_);
  }

  // Return the terms whose leaves or metric this step lacks, and the terms for
  // which it has them.
  const std::set<size_t>& missing() const { return missing_; }
  const std::set<size_t>& present() const { return present_; }
  std::vector<std::string> Names(size_t index) const {
    std::vector<std::string> names;
    if (predicate_.terms()[index].kind == TermKind::kMetric) {
      for (const auto& [name, value] : metrics_->values) names.push_back(name);
    } else if (checkpoint_ != nullptr) {
      for (const LeafInfo& leaf : checkpoint_->leaves()) {
        if (HasElements(leaf.kind)) names.push_back(leaf.name);
      }
    }
    return names;
  }

 private:
  void Say(const std::string& text) {
    if (answer_.why.find(text) != std::string::npos) return;
    answer_.why += (answer_.why.empty() ? "" : ", ") + text;
  }
  std::optional<double> None(const std::string& why) {
    Say(why);
    return std::nullopt;
  }

  Result<std::optional<double>> MetricValue(const PredicateTerm& term,
                                            size_t index) {
    if (!metrics_) {
      HF_ASSIGN_OR_RETURN(const auto described,
                          DescribeSteps(std::vector<std::string>{path_}));
      metrics_.emplace();
      if (!described.empty() && described[0].metrics_json) {
        metrics_ = MetricsOfJson(*described[0].metrics_json);
      }
    }
    const auto value = metrics_->Find(term.argument);
    (value ? present_ : missing_).insert(index);
    if (!value) return None("no metric " + term.argument);
    return value;
  }

  // Returns false if the step is damaged, and an error if it cannot be opened
  // for any other reason.
  Result<bool> OpenStep() {
    if (checkpoint_ != nullptr) return true;
    auto opened = Open(path_, {.stored_sizes = false});
    if (!opened.ok()) {
      if (!IsDamage(opened.status())) return opened.status();
      Say(std::string(opened.status().message()));
      return false;
    }
    checkpoint_ = std::move(opened).value();
    return true;
  }

  Result<std::optional<double>> LeavesValue(const PredicateTerm& term,
                                            size_t index) {
    HF_ASSIGN_OR_RETURN(const bool is_open, OpenStep());
    if (!is_open) return std::optional<double>();
    HF_ASSIGN_OR_RETURN(const auto leaves, Measure(term.argument));
    (leaves.empty() ? missing_ : present_).insert(index);
    if (leaves.empty()) return None("no tensor matches " + term.argument);
    for (const LeafStats* leaf : leaves) {
      if (leaf->problem.ok()) continue;
      if (!IsDamage(leaf->problem)) return leaf->problem;
      return None(leaf->name + ": " + std::string(leaf->problem.message()));
    }
    const auto value = ValueOf(term.kind, leaves);
    if (!value) return None(term.Name() + " has no finite elements");
    return value;
  }

  // Returns the statistics of the leaves that the glob selects. Reads each leaf
  // only once, even for several terms.
  Result<std::vector<const LeafStats*>> Measure(const std::string& glob) {
    StatsOptions options;
    options.run = run_;
    options.select = [&](const LeafInfo& leaf) {
      return GlobSelects(glob, leaf.name) && !stats_.contains(leaf.name);
    };
    HF_ASSIGN_OR_RETURN(StatsResult found, ComputeStats(*checkpoint_, options));
    for (LeafStats& leaf : found.leaves) {
      answer_.bytes += leaf.bytes;
      std::string name = leaf.name;
      stats_.emplace(std::move(name), std::move(leaf));
    }
    std::vector<const LeafStats*> leaves;
    for (const auto& [name, leaf] : stats_) {
      if (GlobSelects(glob, name)) leaves.push_back(&leaf);
    }
    return leaves;
  }

  // Returns the value of a term, computed as if all leaves were one tensor.
  static std::optional<double> ValueOf(
      TermKind kind, const std::vector<const LeafStats*>& leaves) {
    double nan_count = 0, infinity_count = 0, zero_count = 0;
    double element_count = 0, finite_count = 0, sum = 0, squares = 0;
    std::optional<double> max, min, absmax;
    for (const LeafStats* leaf : leaves) {
      const auto finite = static_cast<double>(leaf->finite_count);
      nan_count += static_cast<double>(leaf->nan_count);
      infinity_count += static_cast<double>(leaf->infinity_count());
      zero_count += static_cast<double>(leaf->zero_count);
      element_count += static_cast<double>(leaf->element_count);
      finite_count += finite;
      if (finite > 0) sum += leaf->mean * finite;
      squares += leaf->l2_norm * leaf->l2_norm;
      if (leaf->max)
        max = std::max(AsDouble(*leaf->max), max.value_or(-INFINITY));
      if (leaf->min)
        min = std::min(AsDouble(*leaf->min), min.value_or(INFINITY));
      if (leaf->absmax) {
        absmax = std::max(AsDouble(*leaf->absmax), absmax.value_or(0));
      }
    }
    switch (kind) {
      case TermKind::kNan:
        return nan_count;
      case TermKind::kInf:
        return infinity_count;
      case TermKind::kZeros:
        return element_count > 0 ? zero_count / element_count : 0;
      case TermKind::kMax:
        return max;
      case TermKind::kMin:
        return min;
      case TermKind::kAbsMax:
        return absmax;
      case TermKind::kL2:
      case TermKind::kMean:
        if (finite_count == 0) return std::nullopt;
        return kind == TermKind::kL2 ? std::sqrt(squares) : sum / finite_count;
      case TermKind::kMetric:
        break;
    }
    return std::nullopt;
  }

  const Predicate& predicate_;
  const std::string path_;
  const RunOptions& run_;
  StepAnswer answer_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::map<std::string, LeafStats> stats_;
  std::optional<Metrics> metrics_;
  std::set<size_t> missing_;
  std::set<size_t> present_;
};

// Evaluates a predicate for one step after another.
class PredicateTest {
 public:
  PredicateTest(const Predicate& predicate, const RunOptions& run)
      : predicate_(predicate), run_(run) {}

  Result<StepAnswer> operator()(const std::string& path) {
    StepValues values(predicate_, path, run_);
    HF_ASSIGN_OR_RETURN(
        const std::optional<bool> is_bad,
        predicate_.Evaluate([&](size_t term) { return values.Value(term); }));
    present_.insert(values.present().begin(), values.present().end());
    for (const size_t term : values.missing()) {
      missing_.try_emplace(term, values.Names(term));
    }
    return std::move(values).Answer(is_bad);
  }

  // Explains why a search failed: for some term, no step that was probed has a
  // value.
  Status MissingTerm(const std::string& root) const {
    for (const auto& [index, names] : missing_) {
      if (present_.contains(index)) continue;
      const PredicateTerm& term = predicate_.terms()[index];
      const bool is_metric = term.kind == TermKind::kMetric;
      std::string message = "bisect " + root + ": no step has a " +
                            (is_metric ? "metric " : "tensor that matches ") +
                            term.argument;
      if (!names.empty()) {
        std::vector<std::string> shown = names;
        if (shown.size() > kNamesShownMax) {
          shown.resize(kNamesShownMax);
          shown.emplace_back("...");
        }
        message += "; there are " + Joined(shown, ", ");
      }
      return NotFoundError(message);
    }
    return Status();
  }

 private:
  const Predicate& predicate_;
  const RunOptions& run_;
  std::set<size_t> present_;
  std::map<size_t, std::vector<std::string>> missing_;
};

}  // namespace

std::string_view StepVerdictName(StepVerdict verdict) {
  switch (verdict) {
    case StepVerdict::kGood:
      return "good";
    case StepVerdict::kBad:
      return "bad";
    case StepVerdict::kSkip:
      break;
  }
  return "skip";
}

Result<BisectResult> BisectBy(const std::string& root, const StepTest& test,
                              const BisectOptions& options) {
  return CatchBadAlloc([&] { return Bisector(root, test, options).Run(); });
}

Result<BisectResult> BisectByCommand(const std::string& root,
                                     std::string_view command,
                                     const BisectOptions& options) {
  const auto ask = [&](const std::string& path) -> Result<StepAnswer> {
    auto text = ShellText(command, "{}", kStepVariable, path);
    if (!text.ok()) return text.status().WithContext("--run");
    auto status = RunShell(*text, {{std::string(kStepVariable), path}});
    if (!status.ok()) return status.status().WithContext("--run");
    return AnswerOf(*status);
  };
  return BisectBy(root, ask, options);
}

Result<BisectResult> Bisect(const std::string& root, std::string_view bad_if,
                            const BisectOptions& options) {
  return CatchBadAlloc([&]() -> Result<BisectResult> {
    HF_ASSIGN_OR_RETURN(const Predicate predicate, Predicate::Parse(bad_if));
    PredicateTest test(predicate, options.run);
    auto found = Bisector(root, std::ref(test), options).Run();
    if (found.status().code() == StatusCode::kFailedPrecondition) {
      HF_RETURN_IF_ERROR(test.MissingTerm(root));
    }
    return found;
  });
}

}  // namespace holdfast
