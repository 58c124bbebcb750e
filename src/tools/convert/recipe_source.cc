#include "tools/convert/recipe_source.h"

#include "ground/base/status_macros.h"
#include "ground/base/string_coding.h"
#include "ground/base/xxh64.h"
#include "stores/place/directory_ops.h"
#include "stores/place/file_set.h"
#include "tools/recipe/recipe_checkpoint.h"

namespace holdfast {
namespace {

constexpr std::string_view kConfigFile = "config.json";

// Returns an empty string if the checkpoint has no config.
Result<std::string> ReadConfig(const Place& checkpoint) {
  HF_ASSIGN_OR_RETURN(const bool is_directory, LeadsToDirectory(checkpoint));
  const Place directory = is_directory ? checkpoint : checkpoint.parent();
  // In a model hub's cache the file is a link, which the directory's store
  // would not follow.
  if (!IsThere(directory / kConfigFile)) return std::string();
  HF_ASSIGN_OR_RETURN(
      const std::shared_ptr<Store> file,
      MakeFileSet({{std::string(kConfigFile), directory / kConfigFile}}));
  HF_ASSIGN_OR_RETURN(const Bytes text, file->Read(kConfigFile));
  return text.ToString();
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> ThroughRecipe(
    std::unique_ptr<Checkpoint> source, const std::optional<Recipe>& recipe,
    RecipeOptions options) {
  if (!recipe) {
    if (!options.reverse && options.sizes.empty()) return source;
    return InvalidArgumentError(
        std::string(options.reverse ? "reverse (--reverse)"
                                    : "sizes (--size)") +
        ": it is about a recipe, and none is given; name one (map, --map), or "
        "leave it out");
  }
  if (options.config_json.empty()) {
    HF_ASSIGN_OR_RETURN(options.config_json,
                        ReadConfig(Place(source->info().path)));
  }
  return WithRecipe(std::move(source), *recipe, options);
}

uint64_t RecipeHash(const std::optional<Recipe>& recipe,
                    const RecipeOptions& options) {
  if (!recipe) return 0;
  std::string text;
  PutString(text, recipe->text());
  PutString(text, options.config_json);
  PutString(text, options.reverse ? "reverse" : "");
  for (const auto& [name, size] : options.sizes) {
    PutString(text, name);
    PutString(text, std::to_string(size));
  }
  Xxh64 hash;
  hash.Update(text);
  return hash.Digest();
}

}  // namespace holdfast
