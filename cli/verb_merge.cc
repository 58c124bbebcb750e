// merge: makes one checkpoint from several.

#include "cli/failures.h"
#include "cli/job_progress.h"
#include "cli/json_out.h"
#include "cli/map_rules.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "holdfast/tools/merge.h"

namespace holdfast::cli {
namespace {

struct MergeArgs : TargetArgs {
  MergeOptions merge;
  std::string prefix;  // one per source, between commas

  template <typename Fn>
  void Fields(const Fn& fn) {
    TargetArgs::Fields(fn);
    fn("prefer", merge.prefer);
    fn("average", merge.average);
    fn("weights", merge.weights);
    fn("take_first", merge.take_first);
    fn("prefix", prefix);
  }
};

bool IsAverage(const MergeArgs& args) {
  return args.merge.average || !args.merge.weights.empty();
}

// Returns why the command line makes no sense; empty if it does.
std::string UsageProblem(const MergeArgs& args) {
  const size_t source_count = args.operands.size() - 1;
  const auto one_each = [&](std::string_view flag, size_t count) {
    return "--" + std::string(flag) + ": got " + std::to_string(count) +
           ", want one for each of " + std::to_string(source_count) +
           " sources";
  };
  if (!args.merge.weights.empty() &&
      args.merge.weights.size() != source_count) {
    return one_each("weights", args.merge.weights.size());
  }
  const size_t prefix_count = Split(args.prefix, ',').size();
  if (!args.prefix.empty() && prefix_count != source_count) {
    return one_each("prefix", prefix_count);
  }
  if (IsAverage(args) && !args.prefix.empty()) {
    return "--average takes sources with the same leaves, and no --prefix";
  }
  if (IsAverage(args) && args.merge.prefer != MergePrefer::kRefuse) {
    return "--average takes all sources, and no --prefer";
  }
  return "";
}

std::vector<MergeSource> SourcesOf(const MergeArgs& args) {
  std::vector<MergeSource> sources;
  for (size_t i = 0; i + 1 < args.operands.size(); ++i) {
    MergeSource& source = sources.emplace_back();
    source.path = args.operands[i];
    if (!args.prefix.empty()) source.prefix = Split(args.prefix, ',')[i];
    source.open = args.open;
    source.open.stored_sizes = false;
  }
  return sources;
}

Result<ConvertResult> MergeWithProgress(const MergeArgs& args, Env& env) {
  MergeOptions merge = args.merge;
  merge.run = RunOptionsOf(args, env);
  merge.average = IsAverage(args);
  ConvertOptions options = TargetOptionsOf(args, env);
  auto map = MapRules(args);
  if (!map.ok()) return map.status();
  options.map = *std::move(map);
  const JobProgress progress(
      args, env,
      {.label = "merge", .last_phase = args.target.check ? "check" : ""},
      options.run);
  return Merge(SourcesOf(args), args.operands.back(), merge, options);
}

void PrintMergeJson(const ConvertResult& result, const MergeArgs& args,
                    std::ostream& out) {
  JsonWriter json(out);
  json.BeginObject();
  json.StringsField("sources",
                    {args.operands.begin(), args.operands.end() - 1});
  json.Field("target", args.operands.back());
  json.Field("average", IsAverage(args));
  json.Field("leaf_count", result.leaf_count);
  json.Field("decoded_bytes", result.decoded_bytes);
  json.Field("written_bytes", result.written_bytes);
  json.Field("checked", args.target.check);
  json.Field("checked_bytes", result.checked_bytes);
  json.Field("total_seconds", result.total_seconds);
  json.EndObject();
  out << '\n';
}

int RunMerge(const MergeArgs& args, Env& env) {
  const Status no_recipe = CheckNoRecipe(args);
  if (!no_recipe.ok()) return Fail(env, no_recipe);
  const std::string problem = UsageProblem(args);
  if (!problem.empty()) return FailUsage(env, "merge: " + problem);
  const auto result = MergeWithProgress(args, env);
  if (!result.ok()) return Fail(env, result.status());
  if (args.json) {
    PrintMergeJson(*result, args, env.out);
  } else if (!args.quiet) {
    env.out << "ok: " << Counted(result->leaf_count, "leaf", "leaves") << " of "
            << args.operands.size() - 1 << " sources, "
            << HumanBytes(result->decoded_bytes) << " in "
            << HumanSeconds(result->total_seconds)
            << (args.target.check ? " (checked)" : " (not checked)") << '\n';
  }
  return kExitFine;
}

}  // namespace

int RunMerge(const Words& words, Env& env) {
  return RunFilled<MergeArgs>(words, env, RunMerge);
}

}  // namespace holdfast::cli
