// Recipe: which arrays of one naming make which arrays of another, as one JSON
// document (doc/recipes.md): the tensors of a Hugging Face model, say, and the
// parameters of a Flax module.
//
//   auto recipe = holdfast::Recipe::Named("gpt2-to-flax");
//   auto text = ReadMyFile("mine.json");
//   auto mine = holdfast::Recipe::Parse(text);
//
// A recipe knows no checkpoint. Its statements about one are checked when the
// two meet, before anything is read.
// Thread-safety: immutable values. Ownership: copies share what was parsed.
// Errors: InvalidArgument for a text that is not a recipe, naming the rule by
// its number (from 1) and its name; NotFound for a name that is not shipped.
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
  // One that is shipped; NotFound lists their names.
  static Result<Recipe> Named(std::string_view name);
  // Those that are shipped, sorted.
  static std::vector<std::string> Names();

  // The document as it was parsed, of a reversed recipe too.
  std::string_view text() const;
  // The text of its "about", or empty.
  std::string_view about() const;
  // The sides of every rule exchanged. InvalidArgument names a rule that cannot
  // run backwards.
  Result<Recipe> Reversed() const;

  const RecipeRules& rules() const { return *rules_; }

 private:
  explicit Recipe(std::shared_ptr<const RecipeRules> rules)
      : rules_(std::move(rules)) {}

  std::shared_ptr<const RecipeRules> rules_;
};

struct RecipeOptions {
  // Sizes of axes by name, in elements; they win over the recipe's.
  // InvalidArgument for one that is below 1, or that no rule has.
  std::map<std::string, int64_t> sizes;
  // The text of the model's config.json, which the recipe's "sizes" may name
  // members of; empty: the model has none.
  std::string config_json;
  // Runs the recipe backwards.
  bool reverse = false;
};

}  // namespace holdfast
