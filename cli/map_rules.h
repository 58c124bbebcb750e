// Reads the options for a checkpoint to be written: its format, and the rules
// for its leaves, including the rules of --map-file.
//
// Thread-safety: reads files; otherwise pure.
// Errors: NotFound for a table that cannot be read, InvalidArgument for one
// that cannot be parsed, both with its name.
#pragma once

#include "cli/args.h"
#include "holdfast/tools/convert.h"

namespace holdfast::cli {

Result<LeafMap> MapRules(const Args& args);
// The recipe of --map: a shipped one, or else a file.
Result<std::optional<Recipe>> RecipeOf(const Args& args);

// The leaves that the patterns after SOURCE and TARGET select; empty means all
// leaves, and nothing was opened.
Result<std::vector<std::string>> SelectedNames(const Args& args);

// The options that all verbs with a target share, without the rules for its
// leaves.
ConvertOptions TargetOptionsOf(const Args& args, const Env& env);

}  // namespace holdfast::cli
