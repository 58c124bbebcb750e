#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"
#include "bindings.h"
#include "blocking.h"
#include "errors.h"
#include "holdfast/detail/commit.h"
#include "holdfast/steps/steps.h"
#include "holdfast/steps/wait_for_checkpoint.h"
#include "tree_output.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

// Runs `work` without the GIL.
template <typename T, typename Work>
T RunPlain(const Work& work) {
  return RunForResult<T>({}, nb::none(),
                         [&](const RunOptions&) { return work(); });
}

nb::object StepRow(const ScannedStep& step) {
  nb::object metrics = nb::none();
  if (step.metrics_json) metrics = ToPythonText(*step.metrics_json);
  return nb::make_tuple(step.step, ToPythonText(step.name), step.committed,
                        step.commit_time_ns, metrics);
}

nb::list StepRows(const std::vector<ScannedStep>& steps) {
  nb::list rows;
  for (const ScannedStep& step : steps) rows.append(StepRow(step));
  return rows;
}

// `commit_mode` is a value of Orbax's AtomicityMode.
CommittedBy RuleOf(const std::string& commit_mode, bool allow_legacy) {
  CommittedBy rule;
  if (commit_mode == "commit_file") rule.mode = CommitMode::kMarkerFile;
  if (commit_mode == "atomic_rename") rule.mode = CommitMode::kRename;
  rule.allow_legacy_atomic_rename = allow_legacy;
  return rule;
}

nb::list BindingScanSteps(nb::handle root,
                          const std::optional<std::string>& step_prefix,
                          std::optional<int> step_format_fixed_length,
                          bool any_format, const std::string& commit_mode,
                          bool allow_legacy_atomic_rename,
                          bool include_uncommitted, bool read_metadata,
                          int thread_count) {
  StandardNameOptions names;
  names.step_prefix = step_prefix;
  names.step_format_fixed_length = step_format_fixed_length;
  names.committed_by = RuleOf(commit_mode, allow_legacy_atomic_rename);
  ScanOptions options;
  if (!any_format) options.format = StandardNameFormat(names);
  options.include_uncommitted = include_uncommitted;
  options.read_metadata = read_metadata;
  options.threads = thread_count;
  const std::string directory = PathOf(root);
  return StepRows(RunPlain<std::vector<ScannedStep>>(
      [&] { return ScanSteps(directory, options); }));
}

nb::list BindingDescribeSteps(const std::vector<std::string>& paths) {
  return StepRows(
      RunPlain<std::vector<ScannedStep>>([&] { return DescribeSteps(paths); }));
}

bool BindingIsPathFinalized(nb::handle path, const std::string& commit_mode,
                            bool allow_legacy_atomic_rename) {
  const std::string directory = PathOf(path);
  const CommittedBy rule = RuleOf(commit_mode, allow_legacy_atomic_rename);
  return RunPlain<bool>([&] { return CheckPathFinalized(directory, rule); });
}

bool BindingIsPathTemporary(nb::handle path, const std::string& commit_mode,
                            bool allow_legacy_atomic_rename) {
  const std::string directory = PathOf(path);
  const CommittedBy rule = RuleOf(commit_mode, allow_legacy_atomic_rename);
  return RunPlain<bool>([&] { return CheckPathTemporary(directory, rule); });
}

nb::list BindingTemporaryNames(nb::handle root, const std::string& commit_mode,
                               bool allow_legacy_atomic_rename) {
  const std::string directory = PathOf(root);
  const CommittedBy rule = RuleOf(commit_mode, allow_legacy_atomic_rename);
  return ToPythonTexts(RunPlain<std::vector<std::string>>(
      [&] { return TemporaryCheckpointNames(directory, rule); }));
}

int64_t BindingStepFromName(const std::string& name) {
  return RunPlain<int64_t>([&] { return StepFromCheckpointName(name); });
}

void BindingCheckNewestStep(
    nb::handle root, const std::pair<int64_t, std::string>& newest,
    const std::string& met,
    const std::vector<std::pair<int64_t, std::string>>& others) {
  const std::string directory = PathOf(root);
  std::vector<FoundStep> steps;
  for (const auto& [step, name] : others) steps.push_back({step, name});
  RunBlocking({}, nb::none(), [&](const RunOptions&) {
    return CheckNewestStep(directory, {newest.first, newest.second}, met,
                           steps);
  });
}

// Returns (to_remove, needed) as in DisposedSteps.
nb::tuple BindingDisposeOfSteps(
    nb::handle root, const std::vector<std::string>& names,
    const std::optional<std::string>& todelete_subdir,
    const std::optional<std::string>& todelete_full_path) {
  const std::string directory = PathOf(root);
  const DisposalOptions options{todelete_subdir, todelete_full_path};
  const auto disposed = RunPlain<DisposedSteps>(
      [&] { return DisposeOfSteps(directory, names, options); });
  return nb::make_tuple(ToPythonTexts(disposed.to_remove),
                        ToPythonTexts(disposed.needed));
}

nb::list BindingDisposalLeftovers(nb::handle root) {
  const std::string directory = PathOf(root);
  return ToPythonTexts(RunPlain<std::vector<std::string>>(
      [&]() -> Result<std::vector<std::string>> {
        return DisposalLeftovers(directory);
      }));
}

void BindingCreateSnapshot(nb::handle source, nb::handle snapshot) {
  const std::string from = PathOf(source);
  const std::string to = PathOf(snapshot);
  RunBlocking({}, nb::none(),
              [&](const RunOptions&) { return CreateSnapshot(from, to); });
}

void BindingReleaseSnapshot(nb::handle snapshot) {
  const std::string path = PathOf(snapshot);
  RunBlocking({}, nb::none(),
              [&](const RunOptions&) { return ReleaseSnapshot(path); });
}

void BindingRemoveTrashed(nb::handle path) {
  const std::string directory = PathOf(path);
  RunBlocking({}, nb::none(),
              [&](const RunOptions&) { return RemoveTrashed(directory); });
}

bool BindingRemoveUnused(nb::handle path) {
  const std::string directory = PathOf(path);
  return RunPlain<bool>([&] { return RemoveUnused(directory); });
}

// Returns for each path whether it holds a checkpoint.
nb::list BindingHoldCheckpoints(const std::vector<std::string>& paths) {
  std::vector<bool> answers;
  RunBlocking({}, nb::none(), [&](const RunOptions&) {
    for (const std::string& path : paths) {
      const Result<bool> holds = HoldsCheckpoint(path);
      if (!holds.ok()) return holds.status();
      answers.push_back(*holds);
    }
    return Status();
  });
  nb::list list;
  for (const bool answer : answers) list.append(answer);
  return list;
}

std::unique_ptr<SaveLock> BindingTakeSaveLock(nb::handle path) {
  return Check(SaveLock::Take(PathOf(path)));
}

void BindingCheckMayReplace(nb::handle path) {
  const std::string directory = PathOf(path);
  RunBlocking({}, nb::none(),
              [&](const RunOptions&) { return CheckMayReplace(directory); });
}

void BindingCheckMayHoldSteps(nb::handle root) {
  const std::string path = PathOf(root);
  RunBlocking({}, nb::none(),
              [&](const RunOptions&) { return CheckMayHoldSteps(path); });
}

}  // namespace

void BindSteps(nb::module_& module) {
  nb::class_<SaveLock>(module, "SaveLock").def("release", &SaveLock::Release);
  module.def("take_save_lock", &BindingTakeSaveLock, nb::arg("path"));
  module.def("scan_steps", &BindingScanSteps, nb::arg("root"), nb::kw_only(),
             nb::arg("step_prefix") = nb::none(),
             nb::arg("step_format_fixed_length") = nb::none(),
             nb::arg("any_format") = false, nb::arg("commit_mode") = "auto",
             nb::arg("allow_legacy_atomic_rename") = false,
             nb::arg("include_uncommitted") = false,
             nb::arg("read_metadata") = true, nb::arg("threads") = 0);
  module.def("describe_steps", &BindingDescribeSteps, nb::arg("paths"));
  module.def("check_may_hold_steps", &BindingCheckMayHoldSteps,
             nb::arg("root"));
  module.def("is_path_finalized", &BindingIsPathFinalized, nb::arg("path"),
             nb::kw_only(), nb::arg("commit_mode") = "auto",
             nb::arg("allow_legacy_atomic_rename") = false);
  module.def("is_path_temporary", &BindingIsPathTemporary, nb::arg("path"),
             nb::kw_only(), nb::arg("commit_mode") = "auto",
             nb::arg("allow_legacy_atomic_rename") = false);
  module.def("temporary_names", &BindingTemporaryNames, nb::arg("root"),
             nb::kw_only(), nb::arg("commit_mode") = "auto",
             nb::arg("allow_legacy_atomic_rename") = false);
  module.def("step_from_checkpoint_name", &BindingStepFromName,
             nb::arg("name"));
  module.def("check_newest_step", &BindingCheckNewestStep, nb::arg("root"),
             nb::arg("newest"), nb::arg("met"), nb::arg("others"));
  module.def("dispose_of_steps", &BindingDisposeOfSteps, nb::arg("root"),
             nb::arg("names"), nb::kw_only(),
             nb::arg("todelete_subdir").none() = nb::none(),
             nb::arg("todelete_full_path").none() = nb::none());
  module.def("disposal_leftovers", &BindingDisposalLeftovers, nb::arg("root"));
  module.def("create_snapshot", &BindingCreateSnapshot, nb::arg("source"),
             nb::arg("snapshot"));
  module.def("release_snapshot", &BindingReleaseSnapshot, nb::arg("snapshot"));
  module.def("remove_trashed", &BindingRemoveTrashed, nb::arg("path"));
  module.def(
      "bring_back_checkpoint",
      [](nb::handle path) {
        const std::string directory = PathOf(path);
        const nb::gil_scoped_release released;
        BringBackCheckpoint(directory);
      },
      nb::arg("path"));
  module.def("remove_unused", &BindingRemoveUnused, nb::arg("path"));
  module.def("hold_checkpoints", &BindingHoldCheckpoints, nb::arg("paths"));
  module.def("check_may_replace", &BindingCheckMayReplace, nb::arg("path"));
}

}  // namespace holdfast::python
