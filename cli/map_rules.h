// Makes the options for writing a checkpoint from the arguments: its format,
// and the rules for its leaves, including those of --map-file.
//
// Thread-safety: reads files; otherwise pure.
// Errors: NotFound for a table that cannot be read, InvalidArgument for one
// that cannot be parsed, both with its name.
#pragma once

#include "cli/args.h"
#include "holdfast/tools/convert.h"

namespace holdfast::cli {

Result<LeafMap> MapRules(const Args& args);
// Returns InvalidArgument where --map names a recipe, which only some verbs
// take.
Status CheckNoRecipe(const Args& args);
// Returns the recipe of --map: a shipped recipe, or else a file's.
Result<std::optional<Recipe>> RecipeOf(const Args& args);

// Returns the names of the leaves that the patterns after SOURCE and TARGET
// select. Without patterns, returns an empty list, which means all leaves, and
// opens nothing.
Result<std::vector<std::string>> SelectedNames(const Args& args);

// Returns the options that all verbs with a target share, without the rules for
// its leaves.
ConvertOptions TargetOptionsOf(const Args& args, const Env& env);

}  // namespace holdfast::cli
