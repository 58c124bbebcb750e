# Puts the recipes of src/tools/recipe/shipped into the library as constants,
# each named after its file (src/tools/recipe/shipped.h). A changed recipe makes
# CMake run again.
file(GLOB recipes CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/src/tools/recipe/shipped/*.json)
list(SORT recipes)
set(recipe_entries)
foreach(recipe IN LISTS recipes)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${recipe})
  get_filename_component(recipe_name ${recipe} NAME_WLE)
  file(READ ${recipe} recipe_text)
  string(APPEND recipe_entries
    "    {\"${recipe_name}\", R\"recipe(${recipe_text})recipe\"},\n")
endforeach()
set(recipes_file ${CMAKE_CURRENT_BINARY_DIR}/generated/shipped_recipes.cc)
file(CONFIGURE OUTPUT ${recipes_file} @ONLY CONTENT
"// Made of src/tools/recipe/shipped by cmake/recipes.cmake.
#include \"tools/recipe/shipped.h\"

namespace holdfast {
namespace {

constexpr ShippedRecipe kShippedRecipes[] = {
@recipe_entries@};

}  // namespace

std::span<const ShippedRecipe> ShippedRecipes() { return kShippedRecipes; }

}  // namespace holdfast
")
target_sources(holdfast_tools_recipe PRIVATE ${recipes_file})
