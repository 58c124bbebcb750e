// Parses a recipe's document into rules, and checks them as far as that is
// possible without a checkpoint.
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

// A name with placeholders is a sequence of text, key separators and
// placeholders.
struct NamePiece {
  enum class Kind : uint8_t { kText, kSeparator, kPlaceholder };
  Kind kind = Kind::kText;
  std::string text;
};
using NameTemplate = std::vector<NamePiece>;

struct DequantizeRule {
  NameTemplate scale;
  // Elements per block, one number per axis; empty: derived from the scale's
  // shape.
  Shape block;
};

struct RecipeRule {
  enum class Kind : uint8_t { kFrom, kMatch, kDrop };

  size_t number = 0;  // position in the document, from 1
  std::string label;  // its "from", "match" or "drop"
  Kind kind = Kind::kFrom;
  bool is_optional = false;

  NameTemplate from;
  std::vector<NameTemplate> to;
  // Leaves that are consumed but make no target: the extra names of tied
  // leaves, in a reversed rule.
  std::vector<NameTemplate> left_out;
  std::optional<NameTemplate> otherwise;                  // "else"
  std::map<std::string, std::vector<std::string>> names;  // of placeholders
  std::optional<AxisPattern> axes;
  std::optional<DType> cast;
  std::optional<DequantizeRule> dequantize;

  // kMatch: the expression; `match_to` is what its matches become. kDrop: the
  // glob.
  std::string pattern;
  std::vector<std::string> match_to;

  // The placeholders of `from`, those only in `from`, those of `to`, and those
  // only in `to`.
  std::vector<std::string> from_names, stacked;
  std::vector<std::string> to_names, split;

  // An error in this rule.
  Status Error(const std::string& why) const;
  // The rule's error, prefixed with its number and name.
  Status InContext(const Status& status) const;
};

// An integer, or the name of a member of config.json.
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
