// Recipe: maps arrays of one naming scheme to arrays of another, as one JSON
// document (doc/recipes.md): for example the tensors of a Hugging Face model to
// the parameters of a Flax module.
//
//   auto recipe = holdfast::Recipe::Named("gpt2-to-flax");
//   auto text = ReadMyFile("mine.json");
//   auto mine = holdfast::Recipe::Parse(text);
//
// A recipe refers to no particular checkpoint. Its statements about a
// checkpoint are checked when it is applied to one, before anything is read.
// Thread-safety: immutable values. Ownership: copies share the parsed document.
// Errors: InvalidArgument for text that is not a recipe, naming the rule by its
// number (from 1) and its name; NotFound for a name that is not shipped.
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
  // A shipped recipe; NotFound lists the names.
  static Result<Recipe> Named(std::string_view name);
  // The shipped recipes, sorted.
  static std::vector<std::string> Names();

  // The document as it was parsed, also for a reversed recipe.
  std::string_view text() const;
  // The text of its "about", or empty.
  std::string_view about() const;
  // Exchanges the sides of every rule. InvalidArgument names a rule that cannot
  // be reversed.
  Result<Recipe> Reversed() const;

  const RecipeRules& rules() const { return *rules_; }

 private:
  explicit Recipe(std::shared_ptr<const RecipeRules> rules)
      : rules_(std::move(rules)) {}

  std::shared_ptr<const RecipeRules> rules_;
};

struct RecipeOptions {
  // Sizes of axes by name, in elements; they override the recipe's.
  // InvalidArgument for a size below 1, or for a name that no rule has.
  std::map<std::string, int64_t> sizes;
  // The text of the model's config.json, whose members the recipe's "sizes" may
  // name; empty if the model has none.
  std::string config_json;
  // Applies the recipe in reverse.
  bool reverse = false;
};

}  // namespace holdfast
