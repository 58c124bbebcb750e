#include "tools/recipe/known_sizes.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "ground/base/status_macros.h"
#include "ground/json/unique.h"

namespace holdfast {
namespace {

constexpr size_t kConfigBytesMax = size_t{16} << 20;

// Returns the member that a path such as "a.b" names, or null if it is missing.
const nlohmann::json* FindMember(const nlohmann::json& config,
                                 std::string_view path) {
  const nlohmann::json* at = &config;
  while (true) {
    const size_t dot = path.find('.');
    if (!at->is_object()) return nullptr;
    const auto member = at->find(std::string(path.substr(0, dot)));
    if (member == at->end()) return nullptr;
    at = &*member;
    if (dot == std::string_view::npos) return at->is_null() ? nullptr : at;
    path.remove_prefix(dot + 1);
  }
}

Result<nlohmann::json> ParseConfig(const std::string& text) {
  if (text.empty()) return nlohmann::json::object();
  nlohmann::json config;
  if (text.size() <= kConfigBytesMax) {
    config = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  }
  if (config.is_object()) return config;
  return InvalidArgumentError("recipe: config.json is not a JSON object");
}

// Returns the size that the first source with a size gives.
Result<std::optional<int64_t>> SizeOf(const std::string& name,
                                      const std::vector<SizeSource>& sources,
                                      const nlohmann::json& config) {
  for (const SizeSource& source : sources) {
    if (const auto* size = std::get_if<int64_t>(&source)) return {*size};
    const auto& path = std::get<std::string>(source);
    const nlohmann::json* const member = FindMember(config, path);
    if (member == nullptr) continue;
    if (const auto size = PositiveNumber(*member)) return {*size};
    return InvalidArgumentError("recipe: size " + name + ": \"" + path +
                                "\" of config.json (got " + ShortDump(*member) +
                                ", want a whole number above 0)");
  }
  return std::optional<int64_t>();
}

bool NamesAxis(const RecipeRules& rules, const std::string& name) {
  const auto has = [&](const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return std::any_of(
      rules.rules.begin(), rules.rules.end(), [&](const RecipeRule& rule) {
        return has(rule.stacked) ||
               (rule.axes && std::any_of(rule.axes->source.begin(),
                                         rule.axes->source.end(), has));
      });
}

}  // namespace

Result<std::map<std::string, int64_t>> KnownSizes(
    const RecipeRules& rules, const RecipeOptions& options) {
  std::map<std::string, int64_t> sizes = options.sizes;
  for (const auto& [name, size] : sizes) {
    if (size < 1) {
      return InvalidArgumentError("recipe: size " + name + " (got " +
                                  std::to_string(size) + ", want 1 or more)");
    }
    if (!NamesAxis(rules, name)) {
      return InvalidArgumentError("recipe: size " + name +
                                  ": no rule has an axis of this name");
    }
  }
  HF_ASSIGN_OR_RETURN(const nlohmann::json config,
                      ParseConfig(options.config_json));
  for (const auto& [name, sources] : rules.sizes) {
    if (sizes.contains(name)) continue;
    HF_ASSIGN_OR_RETURN(const std::optional<int64_t> size,
                        SizeOf(name, sources, config));
    if (size) sizes.emplace(name, *size);
  }
  return sizes;
}

}  // namespace holdfast
