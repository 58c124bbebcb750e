#include "tools/recipe/name_match.h"

#include <algorithm>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"

namespace holdfast {
namespace {

// Returns a regular expression that matches exactly the text.
std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '_' || (c & 0x80);
    if (!is_plain) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string ExpressionOf(const std::string& placeholder,
                         const PlaceholderTexts& texts) {
  const auto found = texts.find(placeholder);
  if (found == texts.end()) return "(0|[1-9][0-9]*)";
  std::string alternatives;
  for (const std::string& text : found->second) {
    alternatives += (alternatives.empty() ? "" : "|") + Escaped(text);
  }
  return "(" + alternatives + ")";
}

std::optional<int64_t> ValueOf(const std::string& placeholder,
                               std::string_view text,
                               const PlaceholderTexts& texts) {
  const auto found = texts.find(placeholder);
  if (found == texts.end()) return ParseNumber<int64_t>(text);
  const auto at = std::find(found->second.begin(), found->second.end(), text);
  return at - found->second.begin();
}

}  // namespace

Result<NameMatcher> NameMatcher::Make(const NameTemplate& name,
                                      const PlaceholderTexts& texts) {
  std::string expression, prefix, suffix;
  std::vector<std::string> placeholders;
  for (const NamePiece& piece : name) {
    if (piece.kind == NamePiece::Kind::kPlaceholder) {
      placeholders.push_back(piece.text);
      expression += ExpressionOf(piece.text, texts);
      suffix.clear();
      continue;
    }
    const std::string text =
        piece.kind == NamePiece::Kind::kSeparator ? "." : piece.text;
    expression += Escaped(text);
    if (placeholders.empty()) prefix += text;
    suffix += text;
  }
  HF_ASSIGN_OR_RETURN(Regex regex, Regex::Compile(expression));
  return NameMatcher(std::move(prefix), std::move(suffix), std::move(regex),
                     std::move(placeholders), texts);
}

Result<std::optional<std::vector<int64_t>>> NameMatcher::Match(
    std::string_view leaf, const std::vector<std::string>& order) const {
  std::optional<std::vector<int64_t>> values;
  if (!leaf.starts_with(prefix_) || !leaf.ends_with(suffix_)) return values;
  HF_ASSIGN_OR_RETURN(const std::optional<RegexMatch> match,
                      regex_.FullMatch(leaf));
  if (!match) return values;
  std::vector<int64_t> found(order.size());
  for (size_t i = 0; i < placeholders_.size(); ++i) {
    const std::optional<int64_t> value =
        ValueOf(placeholders_[i], *(*match)[i + 1], *texts_);
    // A number that is too large for an index does not match.
    if (!value) return values;
    const auto at = std::find(order.begin(), order.end(), placeholders_[i]);
    found[at - order.begin()] = *value;
  }
  values = std::move(found);
  return values;
}

std::vector<std::string> KeysOf(const NameTemplate& name,
                                const PlaceholderTexts& texts,
                                const std::map<std::string, int64_t>& values) {
  std::vector<std::string> keys(1);
  for (const NamePiece& piece : name) {
    if (piece.kind == NamePiece::Kind::kSeparator) {
      keys.emplace_back();
    } else if (piece.kind == NamePiece::Kind::kText) {
      keys.back() += piece.text;
    } else if (const auto named = texts.find(piece.text);
               named == texts.end()) {
      keys.back() += std::to_string(values.at(piece.text));
    } else {
      for (const char c : named->second[values.at(piece.text)]) {
        if (c == '.') {
          keys.emplace_back();
        } else {
          keys.back() += c;
        }
      }
    }
  }
  return keys;
}

Result<std::vector<std::string>> SplitKeys(std::string_view name) {
  if (name.size() > kTargetNameBytesMax) {
    return InvalidArgumentError("a name of " + std::to_string(name.size()) +
                                " bytes (want at most " +
                                std::to_string(kTargetNameBytesMax) + ")");
  }
  std::vector<std::string> keys(1);
  for (size_t i = 0; i < name.size(); ++i) {
    if (name.substr(i).starts_with("\\.")) {
      keys.back() += name[++i];
    } else if (name[i] == '.') {
      keys.emplace_back();
    } else {
      keys.back() += name[i];
    }
  }
  if (std::find(keys.begin(), keys.end(), "") == keys.end()) return keys;
  return InvalidArgumentError("\"" + std::string(name) + "\": an empty key");
}

}  // namespace holdfast
