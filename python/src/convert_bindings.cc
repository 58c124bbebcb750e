#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arguments.h"
#include "bindings.h"
#include "blocking.h"
#include "errors.h"
#include "holdfast/tools/convert.h"
#include "holdfast/tools/recipe.h"
#include "holdfast/tools/view.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

using RenameRow = std::tuple<std::string, std::string, bool>;
using CastRow = std::tuple<std::string, std::string>;
using ShardsRow = std::tuple<std::string, std::vector<int64_t>>;

LeafMap MapOf(std::vector<std::string> select, std::vector<std::string> drop,
              const std::vector<RenameRow>& rename,
              const std::vector<CastRow>& cast,
              const std::vector<ShardsRow>& shards, bool nest, bool strict) {
  LeafMap map;
  map.select = std::move(select);
  map.drop = std::move(drop);
  for (const auto& [pattern, replacement, is_literal] : rename) {
    map.renames.push_back({pattern, replacement, is_literal});
  }
  for (const auto& [glob, name] : cast) {
    const std::optional<DType> dtype = DTypeFromName(name);
    if (!dtype) {
      throw StatusError(
          InvalidArgumentError("cast: there is no dtype '" + name + "'"));
    }
    map.casts.push_back({glob, *dtype});
  }
  for (const auto& [glob, part_counts] : shards) {
    map.shards.push_back({glob, part_counts});
  }
  map.nest = nest;
  map.is_strict = strict;
  return map;
}

// A recipe, by the name of a shipped recipe or by its text, and its options.
struct RecipeArguments {
  std::optional<Recipe> recipe;
  RecipeOptions options;
};
RecipeArguments RecipeOf(const std::optional<std::string>& name,
                         const std::optional<std::string>& text, bool reverse,
                         std::map<std::string, int64_t> sizes) {
  RecipeArguments made;
  made.options.reverse = reverse;
  made.options.sizes = std::move(sizes);
  if (name) made.recipe = Check(Recipe::Named(*name));
  if (text) made.recipe = Check(Recipe::Parse(*text));
  return made;
}

nb::dict ResultToPython(const ConvertResult& result) {
  nb::dict values;
  values["leaf_count"] = result.leaf_count;
  values["decoded_bytes"] = result.decoded_bytes;
  values["read_bytes"] = result.read_bytes;
  values["written_bytes"] = result.written_bytes;
  values["checked_bytes"] = result.checked_bytes;
  values["total_seconds"] = result.total_seconds;
  values["format"] = std::string(FormatName(result.format));
  values["report"] = ConvertReportJson(result.report);
  return values;
}

nb::dict BindingConvert(
    nb::handle source, nb::handle target,
    const std::optional<std::string>& format, std::optional<int64_t> step,
    const std::string& item, std::vector<std::string> names,
    std::vector<std::string> select, std::vector<std::string> drop,
    const std::vector<RenameRow>& rename, const std::vector<CastRow>& cast,
    const std::vector<ShardsRow>& shards, bool nest, bool strict,
    const std::optional<std::string>& recipe_name,
    const std::optional<std::string>& recipe_text, bool reverse,
    std::map<std::string, int64_t> sizes, std::optional<int> zarr_format,
    std::optional<bool> use_ocdbt,
    const std::optional<std::string>& compression, uint64_t chunk_bytes,
    uint64_t shard_bytes_max, const std::optional<std::string>& also,
    bool overwrite, bool restart, bool check, bool sync, int thread_count,
    uint64_t memory_bytes, nb::handle progress) {
  ConvertOptions options;
  options.run = RunOf(thread_count, memory_bytes);
  options.open.step = step;
  options.open.item = item;
  options.names = std::move(names);
  options.map = MapOf(std::move(select), std::move(drop), rename, cast, shards,
                      nest, strict);
  if (format) {
    options.format = FormatFromName(*format);
    if (!options.format) {
      throw StatusError(InvalidArgumentError(
          "format: got '" + *format +
          "', want 'orbax', 'orbax-v1', 'megatron-zarr', 'safetensors', "
          "'dcp', 'torch-dist' or 'npz'"));
    }
  }
  RecipeArguments recipe =
      RecipeOf(recipe_name, recipe_text, reverse, std::move(sizes));
  options.recipe = std::move(recipe.recipe);
  options.recipe_options = std::move(recipe.options);
  options.zarr_format = zarr_format;
  options.use_ocdbt = use_ocdbt;
  options.compression = CompressionOf(compression);
  options.chunk_bytes = chunk_bytes;
  options.shard_bytes_max = shard_bytes_max;
  options.also = AlsoOf(also, shard_bytes_max);
  options.overwrite = overwrite;
  options.restart = restart;
  options.check = check;
  options.sync = sync;
  const std::string from = PathOf(source), to = PathOf(target);
  return ResultToPython(RunForResult<ConvertResult>(
      options.run, progress, [&](const RunOptions& run) {
        options.run = run;
        return Convert(from, to, options);
      }));
}

nb::dict BindingMaterialize(nb::handle view, nb::handle target,
                            std::optional<int64_t> step,
                            std::optional<int> zarr_format,
                            std::optional<bool> use_ocdbt,
                            const std::optional<std::string>& compression,
                            uint64_t chunk_bytes, bool overwrite, bool restart,
                            bool check, bool sync, int thread_count,
                            uint64_t memory_bytes, nb::handle progress) {
  ConvertOptions options;
  options.run = RunOf(thread_count, memory_bytes);
  options.open.step = step;
  options.zarr_format = zarr_format;
  options.use_ocdbt = use_ocdbt;
  options.compression = CompressionOf(compression);
  options.chunk_bytes = chunk_bytes;
  options.overwrite = overwrite;
  options.restart = restart;
  options.check = check;
  options.sync = sync;
  const std::string from = PathOf(view);
  const std::string to = target.is_none() ? "" : PathOf(target);
  return ResultToPython(RunForResult<ConvertResult>(
      options.run, progress, [&](const RunOptions& run) {
        options.run = run;
        return Materialize(from, to, options);
      }));
}

nb::dict ViewToPython(const ViewResult& result) {
  nb::list copied;
  for (const ViewResult::Copied& leaf : result.copied) {
    copied.append(nb::make_tuple(leaf.leaf, leaf.why, leaf.byte_count));
  }
  nb::dict values;
  values["leaf_count"] = result.leaf_count;
  values["referred_leaf_count"] = result.referred_leaf_count;
  values["referred_bytes"] = result.referred_bytes;
  values["source_file_count"] = result.source_file_count;
  values["copied"] = std::move(copied);
  values["total_seconds"] = result.total_seconds;
  values["report"] = ConvertReportJson(result.report);
  return values;
}

nb::dict BindingView(
    nb::handle source, nb::handle target, const std::string& format,
    std::optional<int64_t> step, const std::string& item,
    std::vector<std::string> select, std::vector<std::string> drop,
    const std::vector<RenameRow>& rename, const std::vector<CastRow>& cast,
    bool nest, bool strict, const std::optional<std::string>& recipe_name,
    const std::optional<std::string>& recipe_text, bool reverse,
    std::map<std::string, int64_t> sizes, int zarr_format,
    const std::string& link, bool checksums, bool must_refer,
    const std::optional<std::string>& compression, uint64_t chunk_bytes,
    bool overwrite, bool sync, int thread_count, uint64_t memory_bytes,
    nb::handle progress) {
  ViewOptions options;
  options.run = RunOf(thread_count, memory_bytes);
  options.open.step = step;
  options.open.item = item;
  options.map =
      MapOf(std::move(select), std::move(drop), rename, cast, {}, nest, strict);
  const std::optional<Format> as = FormatFromName(format);
  const std::optional<LinkKind> kind = LinkKindFromName(link);
  if (!as) {
    throw StatusError(
        InvalidArgumentError("format: got '" + format +
                             "', want 'orbax', 'orbax-v1' or 'safetensors'"));
  }
  if (!kind) {
    throw StatusError(
        InvalidArgumentError("link: got '" + link +
                             "', want 'symlink', 'hard', 'reflink' or 'copy'"));
  }
  options.format = *as;
  options.link = *kind;
  RecipeArguments recipe =
      RecipeOf(recipe_name, recipe_text, reverse, std::move(sizes));
  options.recipe = std::move(recipe.recipe);
  options.recipe_options = std::move(recipe.options);
  options.zarr_format = zarr_format;
  options.checksums = checksums;
  options.must_refer = must_refer;
  options.compression = CompressionOf(compression);
  options.chunk_bytes = chunk_bytes;
  options.overwrite = overwrite;
  options.sync = sync;
  const std::string from = PathOf(source), to = PathOf(target);
  return ViewToPython(RunForResult<ViewResult>(options.run, progress,
                                               [&](const RunOptions& run) {
                                                 options.run = run;
                                                 return View(from, to, options);
                                               }));
}

}  // namespace

void BindConvert(nb::module_& module) {
  module.def("recipe_names", &Recipe::Names);
  module.def(
      "convert", &BindingConvert, nb::arg("source"), nb::arg("target"),
      nb::kw_only(), nb::arg("format") = nb::none(),
      nb::arg("step") = nb::none(), nb::arg("item") = "",
      nb::arg("names") = nb::list(), nb::arg("select") = nb::list(),
      nb::arg("drop") = nb::list(), nb::arg("rename") = nb::list(),
      nb::arg("cast") = nb::list(), nb::arg("shards") = nb::list(),
      nb::arg("nest") = false, nb::arg("strict") = false,
      nb::arg("recipe_name") = nb::none(), nb::arg("recipe_text") = nb::none(),
      nb::arg("reverse") = false, nb::arg("sizes") = nb::dict(),
      nb::arg("zarr_format") = nb::none(), nb::arg("use_ocdbt") = nb::none(),
      nb::arg("compression").none() = "zstd",
      nb::arg("chunk_bytes") = uint64_t{8} << 20,
      nb::arg("shard_bytes_max") = 0, nb::arg("also") = nb::none(),
      nb::arg("overwrite") = false, nb::arg("restart") = false,
      nb::arg("check") = true, nb::arg("sync") = true, nb::arg("threads") = 0,
      nb::arg("memory_bytes") = uint64_t{256} << 20,
      nb::arg("progress") = nb::none(),
      "holdfast::Convert: what it counted, and its report as JSON.");
  module.def(
      "materialize", &BindingMaterialize, nb::arg("view"),
      nb::arg("target").none(), nb::kw_only(), nb::arg("step") = nb::none(),
      nb::arg("zarr_format") = nb::none(), nb::arg("use_ocdbt") = nb::none(),
      nb::arg("compression").none() = "zstd",
      nb::arg("chunk_bytes") = uint64_t{8} << 20, nb::arg("overwrite") = false,
      nb::arg("restart") = false, nb::arg("check") = true,
      nb::arg("sync") = true, nb::arg("threads") = 0,
      nb::arg("memory_bytes") = uint64_t{256} << 20,
      nb::arg("progress") = nb::none(),
      "holdfast::Materialize: what it counted, and its report as JSON.");
  module.def(
      "view", &BindingView, nb::arg("source"), nb::arg("target"), nb::kw_only(),
      nb::arg("format") = "orbax", nb::arg("step") = nb::none(),
      nb::arg("item") = "", nb::arg("select") = nb::list(),
      nb::arg("drop") = nb::list(), nb::arg("rename") = nb::list(),
      nb::arg("cast") = nb::list(), nb::arg("nest") = false,
      nb::arg("strict") = false, nb::arg("recipe_name") = nb::none(),
      nb::arg("recipe_text") = nb::none(), nb::arg("reverse") = false,
      nb::arg("sizes") = nb::dict(), nb::arg("zarr_format") = 3,
      nb::arg("link") = "symlink", nb::arg("checksums") = false,
      nb::arg("must_refer") = false, nb::arg("compression").none() = "zstd",
      nb::arg("chunk_bytes") = uint64_t{8} << 20, nb::arg("overwrite") = false,
      nb::arg("sync") = true, nb::arg("threads") = 0,
      nb::arg("memory_bytes") = uint64_t{256} << 20,
      nb::arg("progress") = nb::none(),
      "holdfast::View: what it counted, and its report as JSON.");
}

}  // namespace holdfast::python
