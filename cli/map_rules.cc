#include "cli/map_rules.h"

#include <fstream>
#include <span>
#include <sstream>

#include "cli/failures.h"
#include "cli/select.h"
#include "cli/units.h"
#include "holdfast/checkpoint.h"

namespace holdfast::cli {

namespace {

Result<std::string> ReadText(const std::string& flag, const std::string& name) {
  std::ifstream file(name, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return NotFoundError(flag + ": cannot read " + name);
  return text.str();
}

}  // namespace

Status Store(const Flag& flag, std::string_view value, MapWords* words) {
  if (value.find('=') == std::string_view::npos) {
    if (value.empty() || !words->recipe.empty()) return BadValue(flag, value);
    words->recipe = value;
    return Status();
  }
  return Store(flag, value, &words->renames);
}

Status CheckNoRecipe(const MappingArgs& args) {
  if (args.renames.recipe.empty()) return Status();
  return InvalidArgumentError(
      "--map: got " + Quoted(args.renames.recipe) + ", want PATTERN=NEW: " +
      std::string(args.verb->name) + " takes no recipe");
}

Result<std::optional<Recipe>> RecipeOf(const MappingArgs& args) {
  const std::string& name = args.renames.recipe;
  if (name.empty()) {
    if (!args.recipe_options.reverse && args.recipe_options.sizes.empty()) {
      return std::optional<Recipe>();
    }
    return InvalidArgumentError(
        "--reverse and --size are about a recipe (--map)");
  }
  auto shipped = Recipe::Named(name);
  if (shipped.ok()) return std::optional<Recipe>(*std::move(shipped));
  const auto text = ReadText("--map", name);
  if (!text.ok()) {
    return shipped.status().WithContext("--map: there is no such file, and");
  }
  auto parsed = Recipe::Parse(*text);
  if (!parsed.ok()) return parsed.status().WithContext(name);
  return std::optional<Recipe>(*std::move(parsed));
}

Result<LeafMap> MapRules(const MappingArgs& args) {
  LeafMap map = args.map;
  map.renames = args.renames.renames;
  for (const std::string& name : args.map_files) {
    const auto text = ReadText("--map-file", name);
    if (!text.ok()) return text.status();
    auto rules = ParseRenameTable(*text);
    if (!rules.ok()) return rules.status().WithContext("--map-file: " + name);
    map.renames.insert(map.renames.end(), rules->begin(), rules->end());
  }
  return map;
}

Result<std::vector<std::string>> SelectedNames(const Args& args) {
  const auto patterns = std::span(args.operands).subspan(2);
  std::vector<std::string> names;
  if (patterns.empty()) return names;
  const auto opened = Open(args.operands[0], args.open);
  if (!opened.ok()) return opened.status();
  const std::vector<LeafInfo>& leaves = (*opened)->leaves();
  const auto selected = SelectLeaves(leaves, patterns);
  if (!selected.ok()) return selected.status();
  for (const size_t i : *selected) names.push_back(leaves[i].name);
  return names;
}

ConvertOptions TargetOptionsOf(const TargetArgs& args, const Env& env) {
  ConvertOptions options = args.target;
  options.run = RunOptionsOf(args, env);
  if (!args.also.empty()) {
    options.also = AlsoSafetensors(options.shard_bytes_max);
  }
  options.recipe_options = args.recipe_options;
  return options;
}

}  // namespace holdfast::cli
