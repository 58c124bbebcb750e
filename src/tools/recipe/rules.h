// A recipe's document as rules, checked as far as that can be done without a
// checkpoint.
//
// Thread-safety: values and pure functions.
// Errors: InvalidArgument "recipe: rule N (NAME): WHY".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "holdfast/dtype.h"
#include "holdfast/status.h"
#include "tools/recipe/axis_map.h"

namespace holdfast {

// A name with placeholders: texts, the separators of its keys, and
// placeholders by name.
struct NamePiece {
  enum class Kind : uint8_t { kText, kSeparator, kPlaceholder };
  Kind kind = Kind::kText;
  std::string text;
};
using NameTemplate = std::vector<NamePiece>;

struct DequantizeRule {
  NameTemplate scale;
  // Elements a block, one number an axis; empty: as the scale's shape says.
  Shape block;
};

struct RecipeRule {
  enum class Kind : uint8_t { kFrom, kMatch, kDrop };

  size_t number = 0;  // in the document, from 1
  std::string label;  // its "from", "match" or "drop"
  Kind kind = Kind::kFrom;
  bool is_optional = false;

  NameTemplate from;
  std::vector<NameTemplate> to;
  // Leaves that are taken where they are, and left out: tied names backwards.
  std::vector<NameTemplate> left_out;
  std::optional<NameTemplate> otherwise;                  // "else"
  std::map<std::string, std::vector<std::string>> names;  // of placeholders
  std::optional<AxisPattern> axes;
  std::optional<DType> cast;
  std::optional<DequantizeRule> dequantize;

  // kMatch: the expression, and what its matches become; kDrop: the glob.
  std::string pattern;
  std::vector<std::string> match_to;

  // The placeholders of `from`, of only `from`, and of `to`, of only `to`.
  std::vector<std::string> from_names, stacked;
  std::vector<std::string> to_names, split;

  // An error in it.
  Status Error(const std::string& why) const;
  // The rule's error, with its number and name in front.
  Status InContext(const Status& status) const;
};

// A number, or a member of config.json.
using SizeSource = std::variant<int64_t, std::string>;

struct RecipeRules {
  enum class Rest : uint8_t { kError, kKeep, kDrop };

  std::string text;
  std::string about;
  std::map<std::string, std::vector<SizeSource>> sizes;  // tried in order
  std::vector<RecipeRule> rules;
  Rest rest = Rest::kError;
};

Result<RecipeRules> ParseRecipeRules(std::string_view json);
Result<RecipeRules> ReversedRules(const RecipeRules& rules);

}  // namespace holdfast
