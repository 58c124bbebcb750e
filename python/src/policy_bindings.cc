// Applies the rules that decide which steps are saved and kept to Python's
// steps.
//
// The user's functions are called on the caller's thread, and their exceptions
// pass through unchanged.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bindings.h"
#include "errors.h"
#include "holdfast/orbax/checkpoint_manager.h"
#include "holdfast/steps/preservation_policy.h"
#include "holdfast/steps/save_decision_policy.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

// A rule, and which facts it needs besides step numbers. Times and metrics are
// read from files only when they are needed.
struct KeepRule {
  PreservationPolicy policy = PreserveAll{};
  bool reads_times = false;
  // Metrics are read if there are more steps than this; absent: never.
  std::optional<int64_t> reads_metrics_beyond;
  // Returns the sort key of metrics.
  nb::object metric_of = nb::none();
  bool reverse = false;
};

struct SaveRule {
  SaveDecisionPolicy policy;
  bool reads_times = false;
};

// The engine's metrics of a step have one number with this name: the step's
// rank among the steps with metrics. The metrics themselves stay in Python.
constexpr const char* kRank = "rank";

// Times are clamped to this range, because an int64 of nanoseconds cannot hold
// the years 1 and 9999.
constexpr double kSecondsMax = 4e9;

int64_t StepNumberOf(nb::handle step) {
  const nb::object index = nb::steal(PyNumber_Index(step.ptr()));
  if (!index.is_valid()) nb::raise_python_error();
  return nb::cast<int64_t>(index);
}

int64_t StepOf(nb::handle info) {
  return StepNumberOf(nb::object(info.attr("step")));
}

// Returns the step's time in nanoseconds. A datetime has whole microseconds.
int64_t TimeOf(nb::handle info) {
  const double seconds =
      nb::cast<double>(nb::float_(info.attr("time").attr("timestamp")()));
  return std::llround(std::clamp(seconds, -kSecondsMax, kSecondsMax) * 1e6) *
         1000;
}

double RankOf(const Metrics& metrics) {
  return metrics.Find(kRank).value_or(0);
}

// Keeps the n best steps. `metric_of` returns a sort key for metrics, which may
// be anything that Python can sort.
KeepRule BestOf(nb::callable metric_of, bool reverse, std::optional<int64_t> n,
                bool keep_checkpoints_without_metrics) {
  BestN best;
  best.get_metric_fn = RankOf;
  best.n = n;
  best.keep_checkpoints_without_metrics = keep_checkpoints_without_metrics;
  return {std::move(best), false, n, std::move(metric_of), reverse};
}

// Returns true if a sort key is a NaN of any type, or a tuple with a NaN.
bool IsNan(nb::handle key) {
  if (PyTuple_Check(key.ptr())) {
    for (const nb::handle part : nb::borrow<nb::tuple>(key)) {
      if (IsNan(part)) return true;
    }
    return false;
  }
  return nb::cast<bool>(nb::bool_(key.attr("__ne__")(key)));
}

// The positions of the steps that have metrics.
struct Ranking {
  nb::list nan;     // in the order of the steps
  nb::list ranked;  // the others, from the worst to the best
};

// Ranks the steps with Python's own sort, so that keys that cannot be compared
// raise Python's error.
Ranking RankByMetric(const nb::sequence& infos, const nb::object& metric_of,
                     bool reverse) {
  Ranking ranking;
  nb::list keys;  // by position
  for (const nb::handle info : infos) {
    const nb::object metrics = info.attr("metrics");
    const nb::object key = metrics.is_none() ? metrics : metric_of(metrics);
    if (!metrics.is_none()) {
      (IsNan(key) ? ranking.nan : ranking.ranked).append(nb::len(keys));
    }
    keys.append(key);
  }
  ranking.ranked.attr("sort")(nb::arg("key") = keys.attr("__getitem__"),
                              nb::arg("reverse") = reverse);
  return ranking;
}

// Returns the position of the best step; None if no step has metrics other than
// NaN.
nb::object BestByMetric(const nb::sequence& infos, const nb::object& metric_of,
                        bool reverse) {
  const nb::list ranked = RankByMetric(infos, metric_of, reverse).ranked;
  if (nb::len(ranked) == 0) return nb::none();
  return ranked[nb::len(ranked) - 1];
}

// Warns if the metric of the last step is NaN.
void NoteNan(const Ranking& ranking, const nb::sequence& infos) {
  const size_t count = nb::len(ranking.nan);
  if (count == 0) return;
  const size_t last = nb::len(infos) - 1;
  if (nb::cast<size_t>(ranking.nan[count - 1]) != last) return;
  nb::module_::import_("holdfast._log")
      .attr("log")
      .attr("warning")("The metric that ranks step %d is NaN: it is the worst.",
                       StepOf(infos[last]));
}

std::vector<StepRecord> RecordsOf(const nb::sequence& infos, bool reads_times) {
  std::vector<StepRecord> records;
  for (const nb::handle info : infos) {
    StepRecord record{StepOf(info), 0, std::nullopt};
    if (reads_times) record.time_ns = TimeOf(info);
    records.push_back(std::move(record));
  }
  return records;
}

nb::list Preserved(const KeepRule& rule, const nb::sequence& infos) {
  const std::optional<int64_t> few = rule.reads_metrics_beyond;
  std::vector<StepRecord> records = RecordsOf(infos, rule.reads_times);
  if (few && *few != 0 && static_cast<int64_t>(records.size()) > *few) {
    double rank = 0;
    const Ranking ranking = RankByMetric(infos, rule.metric_of, rule.reverse);
    NoteNan(ranking, infos);
    for (const nb::list& positions : {ranking.nan, ranking.ranked}) {
      for (const nb::handle i : positions) {
        records[nb::cast<size_t>(i)].metrics.emplace().values[kRank] = rank++;
      }
    }
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const int64_t now_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  nb::list answers;
  for (const bool keeps :
       Check(ShouldPreserve(rule.policy, records, {now_ns}))) {
    answers.append(keeps);
  }
  return answers;
}

// Saves `steps`, which may be anything that supports `step in steps`.
SaveRule StepsIn(nb::object steps) {
  return {
      CustomSavePolicy{[steps = std::move(steps)](const StepRecord& step,
                                                  std::span<const StepRecord>,
                                                  const DecisionContext&) {
        const int is_in =
            PySequence_Contains(steps.ptr(), nb::int_(step.step).ptr());
        if (is_in < 0) nb::raise_python_error();
        return is_in == 1;
      }}};
}

// Returns a function that calls `function` with a step and the latest step, or
// None.
auto Asking(nb::object function) {
  return [function = std::move(function)](int64_t step,
                                          std::optional<int64_t> latest) {
    return nb::cast<bool>(nb::bool_(function(step, latest)));
  };
}

SaveRule FunctionOfSteps(nb::callable function) {
  return {CustomSavePolicy{
      [ask = Asking(std::move(function))](const StepRecord& step,
                                          std::span<const StepRecord> previous,
                                          const DecisionContext&) {
        return ask(step.step, previous.empty()
                                  ? std::nullopt
                                  : std::optional(previous.back().step));
      }}};
}

std::optional<int64_t> CountOf(nb::handle given, const char* name) {
  const nb::object count = given.attr(name);
  if (count.is_none()) return std::nullopt;
  return StepNumberOf(count);
}

// Returns the rule that corresponds to a manager's older options.
SaveRule SaveRuleOf(nb::handle given) {
  CheckpointManagerOptions options;
  options.save_interval_steps = CountOf(given, "save_interval_steps");
  for (const nb::handle step : nb::iter(given.attr("save_on_steps"))) {
    options.save_on_steps.insert(StepNumberOf(step));
  }
  const nb::object function = given.attr("should_save_fn");
  if (!function.is_none()) options.should_save_fn = Asking(function);
  return {SavePolicyOf(options)};
}

KeepRule KeepRuleOf(nb::handle given) {
  CheckpointManagerOptions options;
  options.max_to_keep = CountOf(given, "max_to_keep");
  options.keep_period = CountOf(given, "keep_period");
  options.keep_checkpoints_without_metrics = nb::cast<bool>(
      nb::bool_(nb::object(given.attr("keep_checkpoints_without_metrics"))));
  KeepRule rule;
  const nb::object interval = given.attr("keep_time_interval");
  if (!interval.is_none()) {
    options.keep_time_interval_seconds =
        nb::cast<double>(interval.attr("total_seconds")());
    rule.reads_times = true;
  }
  rule.metric_of = given.attr("best_fn");
  if (!rule.metric_of.is_none()) {
    options.best_fn = RankOf;  // the highest rank is best in both modes
    rule.reads_metrics_beyond = options.max_to_keep;
    rule.reverse = nb::cast<std::string>(given.attr("best_mode")) == "min";
  }
  if (!nb::object(given.attr("preservation_policy")).is_none()) {
    options.preservation_policy = PreserveAll{};  // the caller applies its own
  }
  rule.policy = Check(PreservationPolicyOf(options));
  return rule;
}

// Returns the rule's decision. Passes only the last of `previous`, because no
// rule needs more.
bool IsSaved(const SaveRule& rule, nb::handle info,
             const nb::sequence& previous, nb::handle context) {
  const auto record_of = [&](nb::handle step) {
    return StepRecord{StepOf(step), rule.reads_times ? TimeOf(step) : 0, {}};
  };
  std::vector<StepRecord> last;
  const size_t count = nb::len(previous);
  if (count > 0) last.push_back(record_of(previous[count - 1]));
  DecisionContext decision;
  decision.is_saving_in_progress =
      nb::cast<bool>(nb::bool_(context.attr("is_saving_in_progress")));
  decision.reached_preemption =
      nb::cast<bool>(nb::bool_(context.attr("reached_preemption")));
  const Result<bool> answer =
      ShouldSave(rule.policy, record_of(info), last, decision);
  if (answer.status().code() == StatusCode::kInvalidArgument) {
    // The engine refuses only an interval of 0. Orbax divides by the interval,
    // so it raises this error.
    PyErr_SetString(PyExc_ZeroDivisionError, "integer modulo by zero");
    nb::raise_python_error();
  }
  return Check(answer);
}

template <typename Rule>
KeepRule WithTimes(Rule rule) {
  return {std::move(rule), true, std::nullopt};
}

void BindKeepRule(nb::module_& module) {
  nb::class_<KeepRule>(module, "KeepRule")
      .def_static("all", [] { return KeepRule{PreserveAll{}}; })
      .def_static(
          "latest",
          [](std::optional<int64_t> n) { return KeepRule{LatestN{n}}; },
          nb::arg("n").none())
      .def_static(
          "seconds_apart",
          [](double seconds) { return WithTimes(EveryNSeconds{seconds}); },
          nb::arg("seconds"))
      .def_static(
          "steps_apart",
          [](int64_t steps, bool exact, std::optional<int64_t> max_to_keep) {
            return KeepRule{EveryNSteps{steps, exact, max_to_keep}};
          },
          nb::arg("steps"), nb::arg("exact"), nb::arg("max_to_keep").none())
      .def_static(
          "closest_to_multiples",
          [](int64_t steps, std::optional<int64_t> max_to_keep) {
            return KeepRule{EveryNStepsClosest{steps, max_to_keep}};
          },
          nb::arg("steps"), nb::arg("max_to_keep").none())
      .def_static(
          "named",
          [](const std::vector<int64_t>& steps) {
            return KeepRule{CustomSteps{{steps.begin(), steps.end()}}};
          },
          nb::arg("steps"))
      .def_static("of_options", &KeepRuleOf, nb::arg("options"))
      .def_static("best", &BestOf, nb::arg("metric_of"), nb::arg("reverse"),
                  nb::arg("n").none(),
                  nb::arg("keep_checkpoints_without_metrics"))
      .def_static(
          "younger_than",
          [](double seconds) { return WithTimes(LatestDuration{seconds}); },
          nb::arg("seconds"))
      .def("should_preserve", &Preserved, nb::arg("checkpoints"));
  module.def("best_by_metric", &BestByMetric, nb::arg("checkpoints"),
             nb::arg("metric_of"), nb::arg("reverse"));
}

void BindSaveRule(nb::module_& module) {
  nb::class_<SaveRule>(module, "SaveRule")
      .def_static(
          "multiples",
          [](int64_t interval) {
            return SaveRule{FixedIntervalPolicy{interval}};
          },
          nb::arg("interval"))
      .def_static("among", &StepsIn, nb::arg("steps"))
      .def_static(
          "continuous",
          [](std::optional<double> seconds) {
            return SaveRule{ContinuousCheckpointingPolicy{seconds},
                            seconds.has_value()};
          },
          nb::arg("minimum_interval_secs").none())
      .def_static("preemption",
                  [] { return SaveRule{PreemptionCheckpointingPolicy{}}; })
      .def_static("initial", [] { return SaveRule{InitialSavePolicy{}}; })
      .def_static("function", &FunctionOfSteps, nb::arg("function"))
      .def_static("of_options", &SaveRuleOf, nb::arg("options"))
      .def("should_save", &IsSaved, nb::arg("step"), nb::arg("previous_steps"),
           nb::arg("context"));
}

}  // namespace

void BindPolicies(nb::module_& module) {
  BindKeepRule(module);
  BindSaveRule(module);
}

}  // namespace holdfast::python
