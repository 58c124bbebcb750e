// log: shows the history of a run, newest step first.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "cli/failures.h"
#include "cli/job_progress.h"
#include "cli/json_out.h"
#include "cli/sparkline.h"
#include "cli/step_text.h"
#include "cli/text_table.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "holdfast/tools/history.h"

namespace holdfast::cli {
namespace {

struct LogArgs : Args {
  LogOptions log;
  std::string metric;

  template <typename Fn>
  void Fields(const Fn& fn) {
    Args::Fields(fn);
    fn("step_count", log.step_count_max);
    fn("moved", log.moved);
    fn("cache", log.cache);
    fn("metric", metric);
  }
};

std::string ShortNumber(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

std::string MovedText(const LogEntry& entry) {
  if (!entry.moved_problem.empty()) {
    return "not compared: " + PrintableText(entry.moved_problem);
  }
  if (entry.moved_against.empty()) return "-";
  if (entry.moved.empty()) return "nothing moved";
  std::string text;
  for (const MovedLeaf& leaf : entry.moved) {
    text += (text.empty() ? "" : ", ") + PrintableText(leaf.name) + " " +
            ShortNumber(leaf.relative);
  }
  return text;
}

// Returns the metric of --metric, or all metrics without that option.
std::string LogMetricsText(const LogEntry& entry, const LogArgs& args) {
  if (args.metric.empty()) return MetricsText(entry.step.metrics);
  const auto found = entry.metrics.find(args.metric);
  return found == entry.metrics.end() ? "-" : ShortNumber(found->second);
}

// Prints "loss ▁▂▃ from 3 (step 1) to 1 (step 9); least 1 (step 8), greatest 3
// (...)".
void PrintSparkline(const StepLog& log, const LogArgs& args, Env& env) {
  std::vector<std::optional<double>> values;
  const LogEntry* least = nullptr;
  const LogEntry* greatest = nullptr;
  const auto value_of = [&](const LogEntry& entry) {
    return entry.metrics.find(args.metric)->second;
  };
  for (auto entry = log.entries.rbegin(); entry != log.entries.rend();
       ++entry) {
    const auto found = entry->metrics.find(args.metric);
    values.push_back(found == entry->metrics.end()
                         ? std::nullopt
                         : std::optional(found->second));
    if (!values.back() || !std::isfinite(*values.back())) continue;
    if (least == nullptr || *values.back() < value_of(*least)) least = &*entry;
    if (greatest == nullptr || *values.back() > value_of(*greatest)) {
      greatest = &*entry;
    }
  }
  const std::string name = PrintableText(args.metric);
  const size_t taken = TextWidth(name) + 1;
  const auto columns = static_cast<size_t>(std::max(env.columns, 0));
  const size_t columns_max = columns > taken + 8 ? columns - taken : 8;
  env.out << name << ' ' << Sparkline(values, columns_max, env.utf8) << '\n';
  if (args.quiet || least == nullptr) return;
  env.out << "least " << ShortNumber(value_of(*least)) << " (step "
          << PrintableText(least->step.name) << "), greatest "
          << ShortNumber(value_of(*greatest)) << " (step "
          << PrintableText(greatest->step.name) << ")\n";
}

// Returns NotFound, with the existing metrics, if no step has the metric of
// --metric.
Status CheckMetric(const StepLog& log, const LogArgs& args) {
  std::set<std::string> names;
  for (const LogEntry& entry : log.entries) {
    for (const auto& [name, value] : entry.metrics) names.insert(name);
  }
  if (args.metric.empty() || names.contains(args.metric)) return Status();
  std::string known;
  for (const std::string& name : names) {
    known += (known.empty() ? "there are " : ", ") + name;
  }
  return NotFoundError("--metric: no step has a metric " + args.metric + "; " +
                       (known.empty() ? "no step has metrics" : known));
}

void PrintLogText(const StepLog& log, const LogArgs& args, Env& env) {
  BeginListing(args, env);
  if (!args.metric.empty()) PrintSparkline(log, args, env);
  std::vector<TextColumn> columns = {{"STEP", Align::kRight},
                                     {"TIME", Align::kLeft, Fit::kDrop},
                                     {"SIZE", Align::kRight},
                                     {"SAVED IN", Align::kRight, Fit::kDrop},
                                     {"METRICS", Align::kLeft, Fit::kShorten}};
  if (args.log.moved) columns.push_back({"MOVED", Align::kLeft, Fit::kShorten});
  columns.push_back({"STATE"});
  TextTable table(std::move(columns));
  const bool color = UseColor(args, env);
  for (const LogEntry& entry : log.entries) {
    const StepInfo& step = entry.step;
    std::vector<std::string> cells = {
        PrintableText(step.name),
        step.commit_timestamp_ns ? IsoTime(*step.commit_timestamp_ns) : "-",
        HumanBytes(step.bytes),
        entry.save_seconds ? HumanSeconds(*entry.save_seconds) : "-",
        LogMetricsText(entry, args)};
    if (args.log.moved) cells.push_back(MovedText(entry));
    cells.push_back(StateText(step, color));
    table.AddRow(std::move(cells));
  }
  table.Print(TableStyleOf(args, env), env.out);
}

void WriteMoved(const LogEntry& entry, JsonWriter* json) {
  if (entry.moved_against.empty()) {
    json->NullField("moved_against");
  } else {
    json->Field("moved_against", entry.moved_against);
  }
  json->Field("moved_problem", entry.moved_problem);
  json->Key("moved");
  json->BeginArray();
  for (const MovedLeaf& leaf : entry.moved) {
    json->BeginObject();
    json->Field("name", leaf.name);
    json->Field("relative", leaf.relative);
    json->EndObject();
  }
  json->EndArray();
}

void PrintLogJson(const StepLog& log, const LogArgs& args, std::ostream& out) {
  JsonWriter json(out);
  json.BeginObject();
  json.Field("path", args.operands[0]);
  json.Field("root", args.operands[0]);
  json.Key("steps");
  json.BeginArray();
  for (const LogEntry& entry : log.entries) {
    json.BeginObject();
    WriteStepFields(entry.step, &json);
    if (entry.save_seconds) {
      json.Field("save_seconds", *entry.save_seconds);
    } else {
      json.NullField("save_seconds");
    }
    if (args.log.moved) WriteMoved(entry, &json);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  out << '\n';
}

int RunLog(const LogArgs& args, Env& env) {
  LogOptions options = args.log;
  options.run = RunOptionsOf(args, env);
  Result<StepLog> log = InternalError("log: not run");
  {
    const JobProgress progress(args, env, {.label = "log"}, options.run);
    log = ReadStepLog(args.operands[0], options);
  }
  if (!log.ok()) return Fail(env, log.status());
  if (!log->cache_warning.empty()) {
    env.err << "holdfast: --cache: " << PrintableText(log->cache_warning)
            << '\n';
  }
  const Status metric = CheckMetric(*log, args);
  if (!metric.ok()) return Fail(env, metric);
  if (args.json) {
    PrintLogJson(*log, args, env.out);
  } else {
    PrintLogText(*log, args, env);
  }
  return kExitFine;
}

}  // namespace

int RunLog(const Words& words, Env& env) {
  return RunFilled<LogArgs>(words, env, RunLog);
}

}  // namespace holdfast::cli
