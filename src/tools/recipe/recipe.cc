#include "holdfast/tools/recipe.h"

#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "tools/recipe/rules.h"
#include "tools/recipe/shipped.h"

namespace holdfast {

Result<Recipe> Recipe::Parse(std::string_view json) {
  return CatchBadAlloc([&]() -> Result<Recipe> {
    HF_ASSIGN_OR_RETURN(RecipeRules rules, ParseRecipeRules(json));
    return Recipe(std::make_shared<const RecipeRules>(std::move(rules)));
  });
}

Result<Recipe> Recipe::Named(std::string_view name) {
  for (const ShippedRecipe& shipped : ShippedRecipes()) {
    if (shipped.name == name) return Parse(shipped.text);
  }
  return NotFoundError("no recipe is named \"" + std::string(name) +
                       "\" (shipped are " + Joined(Names(), ", ") + ")");
}

std::vector<std::string> Recipe::Names() {
  std::vector<std::string> names;
  for (const ShippedRecipe& shipped : ShippedRecipes()) {
    names.emplace_back(shipped.name);
  }
  return names;
}

std::string_view Recipe::text() const { return rules_->text; }
std::string_view Recipe::about() const { return rules_->about; }

Result<Recipe> Recipe::Reversed() const {
  return CatchBadAlloc([&]() -> Result<Recipe> {
    HF_ASSIGN_OR_RETURN(RecipeRules reversed, ReversedRules(*rules_));
    return Recipe(std::make_shared<const RecipeRules>(std::move(reversed)));
  });
}

}  // namespace holdfast
