#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "arguments.h"
#include "bindings.h"
#include "blocking.h"
#include "errors.h"
#include "gil.h"
#include "holdfast/steps/steps.h"
#include "holdfast/tools/history.h"
#include "tree_output.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

nb::tuple LogRow(const LogEntry& entry) {
  nb::dict metrics;
  for (const auto& [name, value] : entry.metrics) {
    metrics[ToPythonText(name)] = value;
  }
  nb::list moved;
  for (const MovedLeaf& leaf : entry.moved) {
    moved.append(nb::make_tuple(ToPythonText(leaf.name), leaf.relative));
  }
  return nb::make_tuple(entry.step, metrics, entry.save_seconds,
                        ToPythonText(entry.moved_against), moved,
                        ToPythonText(entry.moved_problem));
}

nb::tuple BindingReadStepLog(nb::handle root, uint64_t count, bool moved,
                             uint64_t moved_count, nb::handle cache,
                             int thread_count, uint64_t memory_bytes,
                             nb::handle progress) {
  LogOptions options;
  options.step_count_max = count;
  options.moved = moved;
  options.moved_count_max = moved_count;
  if (!cache.is_none()) options.cache = PathOf(cache);
  const std::string path = PathOf(root);
  const auto log = RunForResult<StepLog>(RunOf(thread_count, memory_bytes),
                                         progress, [&](const RunOptions& run) {
                                           options.run = run;
                                           return ReadStepLog(path, options);
                                         });
  nb::list rows;
  for (const LogEntry& entry : log.entries) rows.append(LogRow(entry));
  return nb::make_tuple(rows, ToPythonText(log.cache_warning));
}

nb::tuple RowOfStep(const BisectStep& step) {
  return nb::make_tuple(step.step, ToPythonText(step.name),
                        ToPythonText(step.path));
}

nb::tuple BisectRow(const BisectResult& found) {
  nb::object first_bad = nb::none();
  if (found.first_bad) first_bad = RowOfStep(*found.first_bad);
  nb::list candidates;
  for (const BisectStep& step : found.candidates) {
    candidates.append(RowOfStep(step));
  }
  nb::list probes;
  for (const BisectProbe& probe : found.probes) {
    probes.append(nb::make_tuple(
        RowOfStep(probe.step),
        ToPythonText(std::string(StepVerdictName(probe.answer.verdict))),
        ToPythonText(probe.answer.why), probe.answer.leaf_count,
        probe.answer.bytes));
  }
  return nb::make_tuple(first_bad, candidates, RowOfStep(found.last_good),
                        probes, found.step_count, found.leaf_count,
                        found.bytes);
}

// Calls a Python function, on the thread that passed it.
class CalledTest {
 public:
  explicit CalledTest(nb::handle function) : function_(function) {}

  Result<StepAnswer> operator()(const std::string& path) {
    const GilAcquire acquire;
    try {
      const nb::object is_bad =
          StayingAtTheEnd([&] { return function_(ToPythonText(path)); });
      StepAnswer answer;
      if (is_bad.is_none()) return answer;
      const int truth = PyObject_IsTrue(is_bad.ptr());
      if (truth < 0) nb::raise_python_error();
      answer.verdict = truth == 1 ? StepVerdict::kBad : StepVerdict::kGood;
      return answer;
    } catch (nb::python_error&) {
      raised_ = std::current_exception();
      return CancelledError("bisect: the function has raised an exception");
    }
  }

  const std::exception_ptr& raised() const { return raised_; }

 private:
  const nb::handle function_;
  std::exception_ptr raised_;
};

Result<BisectResult> BisectCalling(const std::string& root, nb::handle function,
                                   const BisectOptions& options) {
  CalledTest test(function);
  Result<BisectResult> found = InternalError("bisect has not run");
  {
    const GilRelease release;
    found = BisectBy(root, std::ref(test), options);
  }
  if (test.raised()) std::rethrow_exception(test.raised());
  return found;
}

nb::tuple BindingBisect(nb::handle root, nb::handle bad_if,
                        std::optional<int64_t> good, std::optional<int64_t> bad,
                        int thread_count, uint64_t memory_bytes) {
  BisectOptions options;
  options.good = good;
  options.bad = bad;
  const std::string path = PathOf(root);
  if (PyCallable_Check(bad_if.ptr()) != 0) {
    return BisectRow(Check(BisectCalling(path, bad_if, options)));
  }
  const auto predicate = nb::cast<std::string>(bad_if);
  return BisectRow(
      RunForResult<BisectResult>(RunOf(thread_count, memory_bytes), nb::none(),
                                 [&](const RunOptions& run) {
                                   options.run = run;
                                   return Bisect(path, predicate, options);
                                 }));
}

nb::object BindingResolve(nb::handle path) {
  const std::string given = PathOf(path);
  return ToPythonText(RunForResult<std::string>(
      {}, nb::none(),
      [&](const RunOptions&) { return ResolveStepAddress(given); }));
}

}  // namespace

void BindHistory(nb::module_& module) {
  module.def("resolve_step_address", &BindingResolve, nb::arg("path"));
  module.def("read_step_log", &BindingReadStepLog, nb::arg("root"),
             nb::kw_only(), nb::arg("count") = 0, nb::arg("moved") = false,
             nb::arg("moved_count") = 3, nb::arg("cache") = nb::none(),
             nb::arg("threads") = 0,
             nb::arg("memory_bytes") = uint64_t{256} << 20,
             nb::arg("progress") = nb::none());
  module.def("bisect", &BindingBisect, nb::arg("root"), nb::arg("bad_if"),
             nb::kw_only(), nb::arg("good") = nb::none(),
             nb::arg("bad") = nb::none(), nb::arg("threads") = 0,
             nb::arg("memory_bytes") = uint64_t{256} << 20);
}

}  // namespace holdfast::python
