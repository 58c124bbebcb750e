// recipes: lists the shipped recipes.

#include "cli/failures.h"
#include "cli/json_out.h"
#include "cli/verbs.h"
#include "holdfast/tools/recipe.h"

namespace holdfast::cli {

int RunRecipes(const Args& args, Env& env) {
  if (!args.operands.empty()) {
    const auto recipe = Recipe::Named(args.operands[0]);
    if (!recipe.ok()) return Fail(env, recipe.status());
    env.out << recipe->text();
    if (!recipe->text().ends_with('\n')) env.out << '\n';
    return kExitFine;
  }
  const std::vector<std::string> names = Recipe::Names();
  if (args.json) {
    JsonWriter json(env.out);
    json.BeginArray();
    for (const std::string& name : names) {
      const auto recipe = Recipe::Named(name);
      json.BeginObject();
      json.Field("name", name);
      json.Field("about", recipe.ok() ? recipe->about() : "");
      json.EndObject();
    }
    json.EndArray();
    env.out << '\n';
    return kExitFine;
  }
  for (const std::string& name : names) {
    const auto recipe = Recipe::Named(name);
    env.out << name << '\n';
    if (!recipe.ok() || args.quiet) continue;
    env.out << "    " << recipe->about() << '\n';
  }
  return kExitFine;
}

}  // namespace holdfast::cli
