// view: makes a checkpoint of any format readable as Orbax's, by reference.

#include "cli/failures.h"
#include "cli/job_progress.h"
#include "cli/json_out.h"
#include "cli/map_rules.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "holdfast/tools/view.h"

namespace holdfast::cli {
namespace {

struct ViewArgs : MappingArgs {
  ViewOptions view;
  bool copy = true;

  template <typename Fn>
  void Fields(const Fn& fn) {
    MappingArgs::Fields(fn);
    fn("view_format", view.format);
    fn("zarr_format", view.zarr_format);
    fn("link", view.link);
    fn("checksums", view.checksums);
    fn("copy", copy);
    fn("compression", view.compression);
    fn("chunk_bytes", view.chunk_bytes);
    fn("overwrite", view.overwrite);
  }
};

void PrintViewJson(const ViewResult& result, const ViewArgs& args,
                   std::ostream& out) {
  JsonWriter json(out);
  json.BeginObject();
  json.Field("source", args.operands[0]);
  json.Field("target", args.operands[1]);
  json.Field("leaf_count", result.leaf_count);
  json.Field("referred_leaf_count", result.referred_leaf_count);
  json.Field("referred_bytes", result.referred_bytes);
  json.Field("source_file_count", result.source_file_count);
  json.Key("copied");
  json.BeginArray();
  for (const ViewResult::Copied& copied : result.copied) {
    json.BeginObject();
    json.Field("leaf", copied.leaf);
    json.Field("why", copied.why);
    json.Field("byte_count", copied.byte_count);
    json.EndObject();
  }
  json.EndArray();
  json.Field("total_seconds", result.total_seconds);
  json.Key("report");
  json.Raw(ConvertReportJson(result.report));
  json.EndObject();
  out << '\n';
}

void PrintViewText(const ViewResult& result, const ViewArgs& args,
                   std::ostream& out) {
  for (const ViewResult::Copied& copied : result.copied) {
    out << copied.leaf << ": copied (" << HumanBytes(copied.byte_count)
        << "): " << copied.why << '\n';
  }
  if (args.quiet) return;
  out << "ok: " << Counted(result.leaf_count, "leaf", "leaves") << ", "
      << HumanBytes(result.referred_bytes) << " of "
      << Counted(result.source_file_count, "file", "files")
      << " referred to in " << HumanSeconds(result.total_seconds);
  if (!result.copied.empty()) {
    out << ", " << Counted(result.copied.size(), "tensor", "tensors")
        << " copied";
  }
  out << '\n';
}

int RunView(const ViewArgs& args, Env& env) {
  ViewOptions options = args.view;
  options.must_refer = !args.copy;
  options.run = RunOptionsOf(args, env);
  options.open = args.open;
  auto names = SelectedNames(args);
  if (!names.ok()) return Fail(env, names.status());
  options.names = *std::move(names);
  auto map = MapRules(args);
  if (!map.ok()) return Fail(env, map.status());
  options.map = *std::move(map);
  auto recipe = RecipeOf(args);
  if (!recipe.ok()) return Fail(env, recipe.status());
  options.recipe = *std::move(recipe);
  options.recipe_options = args.recipe_options;
  const JobProgress progress(args, env, {.label = "view"}, options.run);
  const auto result = View(args.operands[0], args.operands[1], options);
  if (!result.ok()) return Fail(env, result.status());
  if (args.json) {
    PrintViewJson(*result, args, env.out);
  } else {
    PrintViewText(*result, args, env.out);
  }
  return kExitFine;
}

}  // namespace

int RunView(const Words& words, Env& env) {
  return RunFilled<ViewArgs>(words, env, RunView);
}

}  // namespace holdfast::cli
