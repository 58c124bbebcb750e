// prune: removes steps, into the trash or from it.

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/failures.h"
#include "cli/json_out.h"
#include "cli/text_table.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "holdfast/steps/steps.h"

namespace holdfast::cli {
namespace {

// Parses steps between commas.
Status Store(const Flag& flag, std::string_view value,
             std::set<int64_t>* steps) {
  for (const std::string_view part : Split(value, ',')) {
    const auto step = ParseInt(part, 0, std::numeric_limits<int64_t>::max());
    if (!step) return BadValue(flag, value);
    steps->insert(*step);
  }
  return Status();
}

// The rules for the steps to keep, as typed; their labels repeat them.
struct KeepRules {
  std::vector<PruneRule> rules;
};

Status Store(const Flag& flag, std::string_view value, KeepRules* keep) {
  const std::string text(value);
  int64_t count = 0;
  double seconds = 0;
  Status status;
  if (flag.option == "keep_latest") {
    status = Store(flag, value, &count);
    keep->rules.push_back({"the latest " + text, LatestN{count}});
  } else if (flag.option == "keep_every") {
    status = Store(flag, value, &count);
    keep->rules.push_back({"every " + text, EveryNSteps{count}});
  } else if (flag.option == "keep_interval_seconds") {
    status = Store(flag, value, &seconds);
    keep->rules.push_back({"one in " + text, EveryNSeconds{seconds}});
  } else if (flag.option == "keep_since_seconds") {
    status = Store(flag, value, &seconds);
    keep->rules.push_back({"the last " + text, LatestDuration{seconds}});
  } else {
    CustomSteps named;
    status = Store(flag, value, &named.steps);
    keep->rules.push_back({"as named", named});
  }
  return status;
}

struct PruneArgs : Args {
  KeepRules keep;
  std::optional<int64_t> keep_best;
  std::string metric;
  bool lowest_is_best = false;
  bool yes = false;
  std::optional<int64_t> undelete;
  bool empty_trash = false;

  template <typename Fn>
  void Fields(const Fn& fn) {
    Args::Fields(fn);
    fn("keep_latest", keep);
    fn("keep_every", keep);
    fn("keep_since_seconds", keep);
    fn("keep_interval_seconds", keep);
    fn("keep_steps", keep);
    fn("keep_best", keep_best);
    fn("metric", metric);
    fn("mode", lowest_is_best);
    fn("yes", yes);
    fn("undelete", undelete);
    fn("empty_trash", empty_trash);
  }
};

constexpr std::string_view kKeepHint =
    "say what to keep: --keep-latest, --keep-every, --keep-best, --keep-since, "
    "--keep-interval or --keep-steps";

std::string Labels(const PruneRow& row) {
  std::string text;
  for (const std::string& label : row.kept_by) {
    if (!text.empty()) text += ", ";
    text += label;
  }
  return text;
}

std::string MetricText(const PruneRow& row, const PruneArgs& args) {
  if (!row.step.metrics_json) return "-";
  const auto value = MetricsOfJson(*row.step.metrics_json).Find(args.metric);
  if (!value) return "-";
  return std::isnan(*value) ? "NaN" : nlohmann::json(*value).dump();
}

uint64_t GoneCount(const PrunePlan& plan) {
  uint64_t count = 0;
  for (const PruneRow& row : plan.rows) count += row.kept_by.empty() ? 1 : 0;
  return count;
}

void PrintPruneText(const PrunePlan& plan, const PruneArgs& args, Env& env) {
  std::vector<TextColumn> columns = {{"STEP", Align::kRight},
                                     {"TIME", Align::kLeft, Fit::kDrop},
                                     {"SIZE", Align::kRight}};
  if (!args.metric.empty()) columns.push_back({"METRIC", Align::kRight});
  columns.push_back({"KEPT"});
  TextTable table(columns);
  const bool color = UseColor(args, env);
  for (const PruneRow& row : plan.rows) {
    std::vector<std::string> cells = {PrintableText(row.step.name),
                                      IsoTime(row.step.commit_time_ns),
                                      HumanBytes(row.bytes)};
    if (!args.metric.empty()) cells.push_back(MetricText(row, args));
    if (!row.kept_by.empty()) {
      cells.push_back(PrintableText(Labels(row)));
    } else {
      cells.emplace_back(color ? "\x1b[33mno\x1b[0m" : "no");
    }
    table.AddRow(std::move(cells));
  }
  table.Print(TableStyleOf(args, env), env.out);
  if (args.quiet) return;
  if (std::ranges::any_of(plan.rows, [&](const PruneRow& row) {
        return MetricText(row, args) == "NaN";
      })) {
    env.out << "a step whose " << PrintableText(args.metric)
            << " is NaN counts as the worst\n";
  }
  for (const LeftAlone& other : plan.left_alone) {
    env.out << "left alone: " << PrintableText(other.name) << " (" << other.why
            << ")\n";
  }
  const uint64_t gone = GoneCount(plan);
  env.out << Counted(gone, "step", "steps") << ", "
          << HumanBytes(plan.freed_bytes)
          << (args.yes ? ": in the trash\n"
                       : ": would go into the trash (--yes does it)\n");
}

void WriteRow(const PruneRow& row, JsonWriter* json) {
  json->BeginObject();
  json->Field("name", row.step.name);
  json->Field("step", row.step.step);
  json->Field("commit_timestamp", IsoTime(row.step.commit_time_ns));
  json->Field("commit_timestamp_ns", row.step.commit_time_ns);
  json->Field("bytes", row.bytes);
  json->EmbeddedField("metrics", row.step.metrics_json.value_or(""));
  json->Field("kept", !row.kept_by.empty());
  json->StringsField("kept_by", row.kept_by);
  json->EndObject();
}

void PrintPruneJson(const std::string& root, const PrunePlan& plan,
                    const PruneArgs& args, std::ostream& out) {
  JsonWriter json(out);
  json.BeginObject();
  json.Field("path", root);
  json.Field("root", root);
  json.Field("dry_run", !args.yes);
  json.Field("removed_count", GoneCount(plan));
  json.Field("freed_bytes", plan.freed_bytes);
  json.Key("steps");
  json.BeginArray();
  for (const PruneRow& row : plan.rows) WriteRow(row, &json);
  json.EndArray();
  json.Key("left_alone");
  json.BeginArray();
  for (const LeftAlone& other : plan.left_alone) {
    json.BeginObject();
    json.Field("name", other.name);
    json.Field("why", other.why);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  out << '\n';
}

int RunUndelete(const PruneArgs& args, Env& env) {
  const auto path = UndeleteStep(args.operands[0], *args.undelete);
  if (!path.ok()) return Fail(env, path.status());
  if (args.json) {
    JsonWriter json(env.out);
    json.BeginObject();
    json.Field("undeleted", *path);
    json.EndObject();
    env.out << '\n';
  } else {
    env.out << PrintableText(*path) << '\n';
  }
  return kExitFine;
}

Result<EmptiedTrash> EmptyOrCount(const PruneArgs& args) {
  if (args.yes) return EmptyTrash(args.operands[0]);
  const auto trash = ListTrash(args.operands[0]);
  if (!trash.ok()) return trash.status();
  const auto usage = MeasureDiskUsage(args.operands[0]);
  if (!usage.ok()) return usage.status();
  return EmptiedTrash{trash->size(), usage->trash_bytes, {}};
}

int RunEmptyTrash(const PruneArgs& args, Env& env) {
  const auto emptied = EmptyOrCount(args);
  if (!emptied.ok()) return Fail(env, emptied.status());
  if (args.json) {
    JsonWriter json(env.out);
    json.BeginObject();
    json.Field("dry_run", !args.yes);
    json.Field("removed_count", emptied->step_count);
    json.Field("freed_bytes", emptied->bytes);
    json.StringsField("left_alone", emptied->left_alone);
    json.EndObject();
    env.out << '\n';
  } else if (!args.quiet) {
    for (const std::string& path : emptied->left_alone) {
      env.out << "left alone: " << PrintableText(path) << " (no checkpoint)\n";
    }
    env.out << Counted(emptied->step_count, "step", "steps") << ", "
            << HumanBytes(emptied->bytes)
            << (args.yes ? ": removed\n"
                         : ": would be removed for good (--yes does it)\n");
  }
  return kExitFine;
}

int RunPlanOfPrune(const PruneArgs& args, Env& env) {
  PruneOptions options;
  options.keep = args.keep.rules;
  if (args.keep_best) {
    options.keep.push_back(
        {"best " + std::to_string(*args.keep_best),
         BestN{MetricNamed(args.metric), args.lowest_is_best, args.keep_best,
               /*keep_checkpoints_without_metrics=*/false}});
  }
  const auto plan = PlanPrune(args.operands[0], options);
  if (!plan.ok()) return Fail(env, plan.status());
  if (plan->rows.empty()) {
    return Fail(env,
                NotFoundError("no committed steps in " + args.operands[0]));
  }
  if (args.yes) {
    const auto pruned = Prune(args.operands[0], *plan);
    if (!pruned.ok()) return Fail(env, pruned.status());
  }
  if (args.json) {
    PrintPruneJson(args.operands[0], *plan, args, env.out);
  } else {
    PrintPruneText(*plan, args, env);
  }
  return kExitFine;
}

int RunPrune(const PruneArgs& args, Env& env) {
  const bool keeps = !args.keep.rules.empty() || args.keep_best;
  const int task_count =
      (keeps ? 1 : 0) + (args.undelete ? 1 : 0) + (args.empty_trash ? 1 : 0);
  if (task_count == 0) {
    return FailUsage(env, "prune: nothing says what to keep", kKeepHint);
  }
  if (task_count > 1) {
    return FailUsage(env,
                     "prune: --keep options, --undelete and --empty-trash are "
                     "for one call each");
  }
  if (args.keep_best && args.metric.empty()) {
    return FailUsage(env, "prune: --keep-best needs --metric NAME");
  }
  if (args.undelete) return RunUndelete(args, env);
  if (args.empty_trash) return RunEmptyTrash(args, env);
  return RunPlanOfPrune(args, env);
}

}  // namespace

int RunPrune(const Words& words, Env& env) {
  return RunFilled<PruneArgs>(words, env, RunPrune);
}

}  // namespace holdfast::cli
