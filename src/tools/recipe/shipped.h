// The recipes that holdfast ships: src/tools/recipe/shipped/*.json, which CMake
// compiles into the library (cmake/recipes.cmake).
//
// Thread-safety: constants.
#pragma once

#include <span>
#include <string_view>

namespace holdfast {

struct ShippedRecipe {
  std::string_view name;
  std::string_view text;
};

// Returns the shipped recipes, sorted by name.
std::span<const ShippedRecipe> ShippedRecipes();

}  // namespace holdfast
