// convert, reshard and materialize: write a checkpoint again in another layout,
// or with its own copy of all bytes.

#include "cli/failures.h"
#include "cli/flags.h"
#include "cli/job_progress.h"
#include "cli/json_out.h"
#include "cli/leaf_plan.h"
#include "cli/map_rules.h"
#include "cli/ranks.h"
#include "cli/select.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "holdfast/checkpoint.h"
#include "holdfast/tools/convert.h"
#include "holdfast/tools/view.h"

namespace holdfast::cli {
namespace {

struct ConvertArgs : TargetArgs {
  bool restart = false;
  std::string report;  // file of the notes; "-": standard output
  std::optional<Mesh> mesh;
  std::vector<SpecRule> spec_rules;  // as typed; the last matching rule counts

  template <typename Fn>
  void Fields(const Fn& fn) {
    TargetArgs::Fields(fn);
    fn("restart", restart);
    fn("notes", report);
    fn("mesh", mesh);
    fn("spec", spec_rules);
  }
};

ConvertOptions OptionsOf(const ConvertArgs& args, const Env& env,
                         ProcessGroup* group) {
  ConvertOptions options = TargetOptionsOf(args, env);
  options.group = group;
  options.open = args.open;
  options.open.stored_sizes = false;
  options.restart = args.restart;
  if (args.mesh) {
    options.sharding = [mesh = *args.mesh,
                        rules = args.spec_rules](const LeafInfo& leaf) {
      return Result<std::optional<Sharding>>(ShardingOnMesh(leaf, mesh, rules));
    };
  }
  return options;
}

Status WriteReport(const ConvertReport& report, const ConvertArgs& args,
                   Env& env) {
  if (args.report.empty()) return Status();
  if (args.report == "-") {
    if (!args.json) env.out << ConvertReportText(report);
    return Status();
  }
  return WriteTextFile("report", args.report, ConvertReportJson(report) + "\n");
}

Result<ConvertResult> RewriteOne(const ConvertArgs& args,
                                 const ConvertOptions& options) {
  const std::string target = args.operands.size() > 1 ? args.operands[1] : "";
  if (args.verb->name == "materialize") {
    return Materialize(args.operands[0], target, options);
  }
  return Convert(args.operands[0], target, options);
}

Result<ConvertResult> ConvertWithProgress(const ConvertArgs& args, Env& env,
                                          ConvertOptions options) {
  const JobProgress progress(args, env,
                             {.label = std::string(args.verb->name),
                              .last_phase = args.target.check ? "check" : "",
                              .group = options.group},
                             options.run);
  return RewriteOne(args, options);
}

// Counts the leaves that were changed in some way.
std::string Changes(const ConvertReport& report) {
  size_t left_out = 0, renamed = 0, others = 0;
  for (const ConvertReport::Entry& entry : report.entries) {
    if (entry.new_name.empty()) {
      ++left_out;
    } else if (entry.new_name != entry.leaf) {
      ++renamed;
    } else {
      ++others;
    }
  }
  std::string text;
  const auto add = [&text](size_t count, std::string_view what) {
    if (count == 0) return;
    text += (text.empty() ? "" : ", ") + std::to_string(count);
    text += what;
  };
  add(renamed, " renamed");
  add(left_out, " left out");
  add(others, " changed");
  return text;
}

void PrintConvertText(const ConvertResult& result, const ConvertArgs& args,
                      Env& env) {
  if (args.quiet) return;
  if (!result.report.resume_text.empty()) {
    env.err << "holdfast: " << result.report.resume_text << '\n';
  }
  for (const std::string& note : result.report.notes) {
    env.err << "holdfast: note: " << note << '\n';
  }
  const std::string changes = Changes(result.report);
  if (!changes.empty() && args.report.empty()) {
    env.out << changes << "; --report tells\n";
  }
  env.out << "ok: " << Counted(result.leaf_count, "leaf", "leaves") << ", "
          << HumanBytes(result.decoded_bytes) << " in "
          << HumanSeconds(result.total_seconds) << " (read "
          << HumanBytes(result.read_bytes) << ", wrote "
          << HumanBytes(result.written_bytes)
          << (args.target.check ? ", checked" : ", not checked") << ")\n";
}

void PrintConvertJson(const ConvertResult& result, const ConvertArgs& args,
                      std::ostream& out) {
  JsonWriter json(out);
  json.BeginObject();
  json.Field("source", args.operands[0]);
  json.Field("target", args.operands.back());
  json.Field("leaf_count", result.leaf_count);
  json.Field("decoded_bytes", result.decoded_bytes);
  json.Field("read_bytes", result.read_bytes);
  json.Field("written_bytes", result.written_bytes);
  json.Field("checked", args.target.check);
  json.Field("checked_bytes", result.checked_bytes);
  json.Field("waiting_bytes_peak", result.waiting_bytes_peak);
  json.Field("total_seconds", result.total_seconds);
  json.Field("format", FormatName(result.format));
  json.Key("report");
  json.Raw(ConvertReportJson(result.report));
  json.EndObject();
  out << '\n';
}

void PrintConvert(const ConvertResult& result, const ConvertArgs& args,
                  Env& env) {
  if (args.json) {
    PrintConvertJson(result, args, env.out);
  } else {
    PrintConvertText(result, args, env);
  }
}

Result<int> Rewrite(const ConvertArgs& args, ProcessGroup* group, Env& env) {
  ConvertOptions options = OptionsOf(args, env, group);
  Result<std::vector<std::string>> names = SelectedNames(args);
  Status prepared = names.status();
  if (prepared.ok()) {
    auto map = MapRules(args);
    prepared = map.status();
    if (map.ok()) options.map = *std::move(map);
  }
  if (prepared.ok()) {
    auto recipe = RecipeOf(args);
    prepared = recipe.status();
    if (recipe.ok()) options.recipe = *std::move(recipe);
  }
  if (group != nullptr) {
    prepared = group->Agree({"select", args.operands[0]}, prepared);
  }
  if (!prepared.ok()) return prepared;
  options.names = *std::move(names);
  const auto result = ConvertWithProgress(args, env, std::move(options));
  if (!result.ok()) return result.status();
  if (group == nullptr || group->rank() == 0) {
    const Status reported = WriteReport(result->report, args, env);
    if (!reported.ok()) return reported;
  }
  PrintConvert(*result, args, env);
  return kExitFine;
}

int RunConvert(const ConvertArgs& args, Env& env) {
  return OnRanks(args, env, [&](ProcessGroup* group, Env& own) {
    return Rewrite(args, group, own);
  });
}

int RunReshard(const ConvertArgs& args, Env& env) {
  if (!args.mesh && args.map.shards.empty()) {
    return FailUsage(env, "reshard needs --mesh, or --shards");
  }
  return RunConvert(args, env);
}

int RunMaterialize(const ConvertArgs& args, Env& env) {
  auto result = ConvertWithProgress(args, env, OptionsOf(args, env, nullptr));
  if (!result.ok()) return Fail(env, result.status());
  PrintConvert(*result, args, env);
  return kExitFine;
}

}  // namespace

int RunConvert(const Words& words, Env& env) {
  return RunFilled<ConvertArgs>(words, env, RunConvert);
}

int RunReshard(const Words& words, Env& env) {
  return RunFilled<ConvertArgs>(words, env, RunReshard);
}

int RunMaterialize(const Words& words, Env& env) {
  return RunFilled<ConvertArgs>(words, env, RunMaterialize);
}

}  // namespace holdfast::cli
