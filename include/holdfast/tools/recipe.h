// Recipe: maps arrays of one naming scheme to arrays of another, as one JSON
// document (doc/recipes.md): for example the tensors of a Hugging Face model to
// the parameters of a Flax module.
//
//   auto recipe = holdfast::Recipe::Named("gpt2-to-flax");
//   auto text = ReadMyFile("mine.json");
//   auto mine = holdfast::Recipe::Parse(text);
//
// A recipe does not depend on a checkpoint. When it is applied to one,
// everything that it says about the checkpoint's arrays is checked before
// values are read. Thread-safety: immutable values. Ownership: copies share the
// parsed document. Errors: InvalidArgument for text that is not a recipe,
// naming the rule by its number (from 1) and its name; NotFound if holdfast
// does not ship a recipe of that name.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

struct RecipeRules;  // src/tools/recipe/rules.h

class Recipe {
 public:
  static Result<Recipe> Parse(std::string_view json);
  // Returns a recipe that holdfast ships. NotFound lists the names.
  static Result<Recipe> Named(std::string_view name);
  // Returns the names of the shipped recipes, sorted.
  static std::vector<std::string> Names();

  // Returns the document that was parsed, also for a reversed recipe.
  std::string_view text() const;
  // Returns the text of the document's "about", or "".
  std::string_view about() const;
  // Returns the recipe with the sides of every rule exchanged. InvalidArgument,
  // naming the rule, if a rule cannot be reversed.
  Result<Recipe> Reversed() const;

  const RecipeRules& rules() const { return *rules_; }

 private:
  explicit Recipe(std::shared_ptr<const RecipeRules> rules)
      : rules_(std::move(rules)) {}

  std::shared_ptr<const RecipeRules> rules_;
};

struct RecipeOptions {
  // Sizes of axes by name, in elements; these override the recipe's sizes.
  // InvalidArgument for a size below 1, or for a name that no rule has.
  std::map<std::string, int64_t> sizes;
  // The text of the model's config.json, or empty. The recipe's "sizes" may
  // refer to its members.
  std::string config_json;
  // Applies the recipe in reverse.
  bool reverse = false;
};

}  // namespace holdfast
