// Parses a recipe's JSON document into rules, and checks them as far as
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

// A piece of a name with placeholders: text, a separator of keys, or a
// placeholder.
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
  // Source leaves that make no target. In a reversed rule these are the extra
  // names of tied leaves.
  std::vector<NameTemplate> left_out;
  std::optional<NameTemplate> otherwise;                  // "else"
  std::map<std::string, std::vector<std::string>> names;  // of placeholders
  std::optional<AxisPattern> axes;
  std::optional<DType> cast;
  std::optional<DequantizeRule> dequantize;

  // kMatch: a regular expression; `match_to` has the names that its matches
  // become. kDrop: a glob.
  std::string pattern;
  std::vector<std::string> match_to;

  // The placeholders of `from`, those only in `from`, those of `to`, and those
  // only in `to`.
  std::vector<std::string> from_names, stacked;
  std::vector<std::string> to_names, split;

  // Returns an error in this rule.
  Status Error(const std::string& why) const;
  // Returns `status` prefixed with the rule's number and name.
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
