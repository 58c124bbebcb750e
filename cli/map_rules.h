// Makes the options for writing a checkpoint from the arguments: its format,
// and the rules for its leaves, including those of --map-file.
//
// Thread-safety: reads files; otherwise pure.
// Errors: NotFound for a table that cannot be read, InvalidArgument for one
// that cannot be parsed, both with its name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/args.h"
#include "holdfast/tools/convert.h"

namespace holdfast::cli {

// The values of --map.
struct MapWords {
  std::vector<LeafMap::Rename> renames;
  std::string recipe;  // the name of a shipped one, or a file; empty: none
};
Status Store(const Flag& flag, std::string_view value, MapWords* words);

// The options of verbs that rename, cast and leave out.
struct MappingArgs : Args {
  LeafMap map;  // without the renames
  MapWords renames;
  std::vector<std::string> map_files;  // tables of renames
  RecipeOptions recipe_options;

  template <typename Fn>
  void Fields(const Fn& fn) {
    Args::Fields(fn);
    fn("map", renames);
    fn("rename_file", map_files);
    fn("select", map.select);
    fn("drop", map.drop);
    fn("cast", map.casts);
    fn("shards", map.shards);
    fn("nest", map.nest);
    fn("strict", map.is_strict);
    fn("reverse", recipe_options.reverse);
    fn("sizes", recipe_options.sizes);
  }
};

// The options of verbs that write a checkpoint.
struct TargetArgs : MappingArgs {
  ConvertOptions target;
  std::string also;  // a format; empty: none

  template <typename Fn>
  void Fields(const Fn& fn) {
    MappingArgs::Fields(fn);
    fn("format", target.format);
    fn("zarr_format", target.zarr_format);
    fn("ocdbt", target.use_ocdbt);
    fn("compression", target.compression);
    fn("chunk_bytes", target.chunk_bytes);
    fn("also", also);
    fn("overwrite", target.overwrite);
    fn("compare", target.check);
    fn("data_file_bytes", target.shard_bytes_max);
  }
};

Result<LeafMap> MapRules(const MappingArgs& args);
// Returns InvalidArgument where --map names a recipe, which only some verbs
// take.
Status CheckNoRecipe(const MappingArgs& args);
// Returns the recipe of --map: a shipped recipe, or else a file's.
Result<std::optional<Recipe>> RecipeOf(const MappingArgs& args);

// Returns the names of the leaves that the patterns after SOURCE and TARGET
// select. Without patterns, returns an empty list, which means all leaves, and
// opens nothing.
Result<std::vector<std::string>> SelectedNames(const Args& args);

// Returns the options that all verbs with a target share, without the rules for
// its leaves.
ConvertOptions TargetOptionsOf(const TargetArgs& args, const Env& env);

}  // namespace holdfast::cli
