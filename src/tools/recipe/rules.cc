#include "tools/recipe/rules.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "ground/json/unique.h"
#include "ground/names/regex.h"

namespace holdfast {
namespace {

using Json = nlohmann::json;

constexpr size_t kTextBytesMax = size_t{1} << 20;
// The maximum length of names, patterns and the like. It is small because a
// recipe makes many names from each.
constexpr size_t kStringBytesMax = 4096;
constexpr size_t kRulesMax = size_t{1} << 16;

// ----- names ----------------------------------------------------------------

class TemplateParser {
 public:
  TemplateParser(std::string_view text, bool has_escapes)
      : text_(text), has_escapes_(has_escapes) {}

  Result<NameTemplate> Parse() {
    for (size_t i = 0; i < text_.size(); ++i) {
      const char c = text_[i];
      if (has_escapes_ && text_.substr(i).starts_with("\\.")) {
        AddText(text_[++i]);
      } else if (c == '.') {
        pieces_.push_back({NamePiece::Kind::kSeparator, ""});
      } else if (c == '{') {
        HF_ASSIGN_OR_RETURN(i, AddPlaceholder(i));
      } else {
        AddText(c);
      }
    }
    HF_RETURN_IF_ERROR(CheckKeys());
    return std::move(pieces_);
  }

 private:
  void AddText(char c) {
    if (pieces_.empty() || pieces_.back().kind != NamePiece::Kind::kText) {
      pieces_.push_back({NamePiece::Kind::kText, ""});
    }
    pieces_.back().text += c;
  }

  // Adds the placeholder whose brace opens at `open`. Returns the position of
  // the closing brace.
  Result<size_t> AddPlaceholder(size_t open) {
    const size_t close = text_.find('}', open);
    if (close == std::string_view::npos) return Refuse("a { is not closed");
    const std::string name(text_.substr(open + 1, close - open - 1));
    const Result<AxisPattern> as_axis = ParseAxes(name + " ->");
    const bool is_name = as_axis.ok() && as_axis->source.size() == 1 &&
                         as_axis->source[0] == std::vector<std::string>{name} &&
                         name != "...";
    if (!is_name) return Refuse("{" + name + "} is not a placeholder's name");
    if (!names_.insert(name).second) {
      return Refuse("{" + name + "} stands there twice");
    }
    if (!pieces_.empty() &&
        pieces_.back().kind == NamePiece::Kind::kPlaceholder) {
      return Refuse("two placeholders touch");
    }
    pieces_.push_back({NamePiece::Kind::kPlaceholder, name});
    return close;
  }

  Status CheckKeys() const {
    bool has_key = false;
    for (const NamePiece& piece : pieces_) {
      const bool is_separator = piece.kind == NamePiece::Kind::kSeparator;
      if (is_separator && !has_key) return Refuse("an empty key");
      has_key = !is_separator;
    }
    return has_key ? Status() : Refuse("an empty key");
  }

  Status Refuse(const std::string& why) const {
    return InvalidArgumentError("\"" + std::string(text_) + "\": " + why);
  }

  const std::string_view text_;
  const bool has_escapes_;
  NameTemplate pieces_;
  std::set<std::string> names_;
};

std::vector<std::string> PlaceholdersOf(const NameTemplate& name) {
  std::vector<std::string> names;
  for (const NamePiece& piece : name) {
    if (piece.kind == NamePiece::Kind::kPlaceholder) {
      names.push_back(piece.text);
    }
  }
  return names;
}

bool Has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool AreSameNames(std::vector<std::string> a, std::vector<std::string> b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

std::vector<std::string> Without(const std::vector<std::string>& names,
                                 const std::vector<std::string>& others) {
  std::vector<std::string> left;
  for (const std::string& name : names) {
    if (!Has(others, name)) left.push_back(name);
  }
  return left;
}

// ----- axes and placeholders ------------------------------------------------

Status CheckSide(const RecipeRule& rule, const AxisNames& axes,
                 const std::vector<std::string>& placeholders,
                 std::set<std::string>& names, const std::string& side) {
  for (const auto& axis : axes) names.insert(axis.begin(), axis.end());
  for (const std::string& name : placeholders) {
    if (!names.insert(name).second) {
      return rule.Error("{" + name + "} is in \"" + side +
                        "\", so that it is not an axis on that side of "
                        "\"axes\"");
    }
  }
  return Status();
}

Status CheckOnBothSides(const RecipeRule& rule, const std::set<std::string>& a,
                        const std::set<std::string>& b,
                        const std::string& side) {
  for (const std::string& name : a) {
    if (!b.contains(name)) {
      return rule.Error("axis " + name + " is only on the " + side +
                        " (want every name once on either side)");
    }
  }
  return Status();
}

Status CheckAxes(const RecipeRule& rule) {
  if (!rule.axes) {
    const auto& lost = rule.stacked.empty() ? rule.split : rule.stacked;
    if (lost.empty()) return Status();
    return rule.Error("{" + lost[0] + "} is only in \"" +
                      (rule.stacked.empty() ? "to" : "from") +
                      "\" (want \"axes\" that say where its axis is)");
  }
  std::set<std::string> left, right;
  HF_RETURN_IF_ERROR(
      CheckSide(rule, rule.axes->source, rule.from_names, left, "from"));
  HF_RETURN_IF_ERROR(
      CheckSide(rule, rule.axes->target, rule.to_names, right, "to"));
  HF_RETURN_IF_ERROR(CheckOnBothSides(rule, left, right, "left"));
  return CheckOnBothSides(rule, right, left, "right");
}

Status CheckSamePlaceholders(const RecipeRule& rule, const NameTemplate& name,
                             const std::vector<std::string>& want,
                             const std::string& what) {
  if (AreSameNames(PlaceholdersOf(name), want)) return Status();
  return rule.Error(what + " (got the placeholders {" +
                    Joined(PlaceholdersOf(name), ", ") + "}, want {" +
                    Joined(want, ", ") + "})");
}

// Determines which placeholders are axes, and checks them.
Status CompleteRule(RecipeRule& rule) {
  if (rule.kind == RecipeRule::Kind::kFrom) {
    rule.from_names = PlaceholdersOf(rule.from);
    rule.to_names = PlaceholdersOf(rule.to[0]);
    rule.stacked = Without(rule.from_names, rule.to_names);
    rule.split = Without(rule.to_names, rule.from_names);
    for (const auto* names : {&rule.to, &rule.left_out}) {
      for (const NameTemplate& name : *names) {
        HF_RETURN_IF_ERROR(CheckSamePlaceholders(
            rule, name, names == &rule.to ? rule.to_names : rule.from_names,
            "a name of \"to\""));
      }
    }
    if (rule.otherwise) {
      HF_RETURN_IF_ERROR(CheckSamePlaceholders(rule, *rule.otherwise,
                                               rule.from_names, "\"else\""));
    }
    if (rule.dequantize) {
      HF_RETURN_IF_ERROR(CheckSamePlaceholders(rule, rule.dequantize->scale,
                                               rule.from_names, "\"scale\""));
    }
  }
  for (const auto& [name, texts] : rule.names) {
    if (Has(rule.from_names, name) || Has(rule.to_names, name)) continue;
    return rule.Error("\"names\" has {" + name +
                      "}, which is not a placeholder");
  }
  return CheckAxes(rule);
}

// ----- JSON -----------------------------------------------------------------

std::string WithArticle(const Json& value) {
  const std::string name = value.type_name();
  return (name == "array" || name == "object" ? "an " : "a ") + name;
}

Result<std::string> TextOf(const Json& value, const std::string& what) {
  if (!value.is_string()) {
    return InvalidArgumentError("\"" + what + "\" is " + WithArticle(value) +
                                ", want a string");
  }
  const auto& text = value.get_ref<const std::string&>();
  if (text.size() <= kStringBytesMax) return text;
  return InvalidArgumentError(
      "\"" + what + "\" has " + std::to_string(text.size()) +
      " bytes (want at most " + std::to_string(kStringBytesMax) + ")");
}

// Accepts a string, or a list of strings that is not empty.
Result<std::vector<std::string>> TextsOf(const Json& value,
                                         const std::string& what) {
  if (!value.is_array()) {
    HF_ASSIGN_OR_RETURN(std::string text, TextOf(value, what));
    return std::vector<std::string>{std::move(text)};
  }
  std::vector<std::string> texts;
  for (const Json& element : value) {
    HF_ASSIGN_OR_RETURN(std::string text, TextOf(element, what));
    texts.push_back(std::move(text));
  }
  if (texts.empty()) return InvalidArgumentError("\"" + what + "\" is empty");
  return texts;
}

Status CheckMembers(const Json& object,
                    const std::vector<std::string>& allowed) {
  for (const auto& [name, value] : object.items()) {
    if (Has(allowed, name)) continue;
    return InvalidArgumentError("\"" + name + "\" is not a member (want " +
                                Joined(allowed, ", ") + ")");
  }
  return Status();
}

// Accepts an integer of at least 1.
Result<int64_t> CountOf(const Json& value, const std::string& what) {
  if (const auto count = PositiveNumber(value)) return *count;
  return InvalidArgumentError("\"" + what + "\" has " + ShortDump(value) +
                              ", want a whole number above 0");
}

class RuleParser {
 public:
  RuleParser(const Json& json, size_t number) : json_(json) {
    rule_.number = number;
  }

  Result<RecipeRule> Parse() {
    if (!json_.is_object()) {
      return rule_.Error("it is " + WithArticle(json_) + ", want an object");
    }
    HF_RETURN_IF_ERROR(rule_.InContext(ParseMembers()));
    HF_RETURN_IF_ERROR(CompleteRule(rule_));
    return std::move(rule_);
  }

 private:
  Status ParseMembers() {
    int count = 0;
    for (const char* const kind : {"from", "match", "drop"}) {
      if (!json_.contains(kind)) continue;
      ++count;
      HF_ASSIGN_OR_RETURN(rule_.label, TextOf(json_[kind], kind));
    }
    if (count != 1) {
      return InvalidArgumentError(
          "want one of \"from\", \"match\" and \"drop\" (got " +
          std::to_string(count) + " of them)");
    }
    if (json_.contains("optional")) {
      if (!json_["optional"].is_boolean()) {
        return InvalidArgumentError("\"optional\" is " +
                                    WithArticle(json_["optional"]) +
                                    ", want true or false");
      }
      rule_.is_optional = json_["optional"].get<bool>();
    }
    if (json_.contains("drop")) return ParseDrop();
    if (!json_.contains("to")) return InvalidArgumentError("it has no \"to\"");
    HF_ASSIGN_OR_RETURN(const std::vector<std::string> to,
                        TextsOf(json_["to"], "to"));
    HF_RETURN_IF_ERROR(json_.contains("match") ? ParseMatch(to)
                                               : ParseFrom(to));
    return ParseChanges();
  }

  Status ParseDrop() {
    rule_.kind = RecipeRule::Kind::kDrop;
    rule_.pattern = rule_.label;
    return CheckMembers(json_, {"drop", "optional"});
  }

  Status ParseMatch(const std::vector<std::string>& to) {
    rule_.kind = RecipeRule::Kind::kMatch;
    rule_.pattern = rule_.label;
    rule_.match_to = to;
    HF_RETURN_IF_ERROR(
        CheckMembers(json_, {"match", "to", "axes", "cast", "optional"}));
    return Regex::Compile(rule_.pattern).status();
  }

  Status ParseFrom(const std::vector<std::string>& to) {
    HF_ASSIGN_OR_RETURN(rule_.from, TemplateParser(rule_.label, false).Parse());
    for (const std::string& name : to) {
      HF_ASSIGN_OR_RETURN(rule_.to.emplace_back(),
                          TemplateParser(name, true).Parse());
    }
    HF_RETURN_IF_ERROR(
        CheckMembers(json_, {"from", "to", "axes", "cast", "names", "else",
                             "optional", "dequantize"}));
    if (json_.contains("else")) {
      HF_ASSIGN_OR_RETURN(const std::string name,
                          TextOf(json_["else"], "else"));
      HF_ASSIGN_OR_RETURN(rule_.otherwise, TemplateParser(name, false).Parse());
    }
    if (json_.contains("names")) HF_RETURN_IF_ERROR(ParseNames(json_["names"]));
    if (!json_.contains("dequantize")) return Status();
    return ParseDequantize(json_["dequantize"]);
  }

  Status ParseNames(const Json& names) {
    if (!names.is_object()) {
      return InvalidArgumentError("\"names\" is " + WithArticle(names) +
                                  ", want an object");
    }
    for (const auto& [placeholder, texts] : names.items()) {
      HF_ASSIGN_OR_RETURN(std::vector<std::string> parsed,
                          TextsOf(texts, placeholder));
      std::set<std::string> once;
      for (const std::string& text : parsed) {
        // A text that is not a sequence of keys is refused, because it would
        // make empty keys.
        HF_RETURN_IF_ERROR(TemplateParser(text, false).Parse().status());
        if (text.find('{') == std::string::npos && once.insert(text).second) {
          continue;
        }
        return InvalidArgumentError("\"names\" of {" + placeholder + "}: \"" +
                                    text + "\" is there twice, or has a {");
      }
      rule_.names[placeholder] = std::move(parsed);
    }
    return Status();
  }

  Status ParseDequantize(const Json& json) {
    if (!json.is_object() || !json.contains("scale")) {
      return InvalidArgumentError(
          "\"dequantize\" is not an object with a \"scale\"");
    }
    HF_RETURN_IF_ERROR(CheckMembers(json, {"scale", "block"}));
    DequantizeRule dequantize;
    HF_ASSIGN_OR_RETURN(const std::string scale,
                        TextOf(json["scale"], "scale"));
    HF_ASSIGN_OR_RETURN(dequantize.scale, TemplateParser(scale, false).Parse());
    const Json block = json.value("block", Json::array());
    if (!block.is_array() || block.size() > kRankMax) {
      return InvalidArgumentError("\"block\" is not a list of extents");
    }
    for (const Json& extent : block) {
      HF_ASSIGN_OR_RETURN(const int64_t count, CountOf(extent, "block"));
      dequantize.block.push_back(count);
    }
    rule_.dequantize = std::move(dequantize);
    return Status();
  }

  Status ParseChanges() {
    if (json_.contains("axes")) {
      HF_ASSIGN_OR_RETURN(const std::string text,
                          TextOf(json_["axes"], "axes"));
      HF_ASSIGN_OR_RETURN(rule_.axes, ParseAxes(text));
    }
    if (json_.contains("cast")) {
      HF_ASSIGN_OR_RETURN(const std::string name,
                          TextOf(json_["cast"], "cast"));
      rule_.cast = DTypeFromName(name);
      if (!rule_.cast) {
        return InvalidArgumentError("\"" + name + "\" is not a dtype");
      }
    }
    return Status();
  }

  const Json& json_;
  RecipeRule rule_;
};

void ReplaceAll(Json& member, const std::string& what, const std::string& by) {
  if (member.is_array() || member.is_object()) {
    for (Json& element : member) ReplaceAll(element, what, by);
  }
  if (!member.is_string()) return;
  std::string text = member.get<std::string>();
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos;
       at += by.size()) {
    text.replace(at, what.size(), by);
  }
  member = std::move(text);
}

bool HasPlaceholder(const Json& name, const std::string& placeholder) {
  const Json& first = name.is_array() && !name.empty() ? name[0] : name;
  return first.is_string() && first.get_ref<const std::string&>().find(
                                  placeholder) != std::string::npos;
}

// Expands a rule with a placeholder of "names" on both sides into one rule for
// each of the placeholder's texts.
std::vector<Json> SingleRules(const Json& json) {
  std::vector<Json> rules = {json};
  if (!json.is_object() || !json.contains("names") ||
      !json["names"].is_object()) {
    return rules;
  }
  for (const auto& [name, texts] : json["names"].items()) {
    const std::string placeholder = "{" + name + "}";
    if (!HasPlaceholder(json.value("from", Json()), placeholder) ||
        !HasPlaceholder(json.value("to", Json()), placeholder)) {
      continue;
    }
    std::vector<Json> more;
    for (const Json& rule : rules) {
      for (const Json& text : texts) {
        Json single = rule;
        single["names"].erase(name);
        for (const char* member : {"from", "to", "else", "dequantize"}) {
          if (single.contains(member)) {
            ReplaceAll(single[member], placeholder, text.get<std::string>());
          }
        }
        more.push_back(std::move(single));
        if (more.size() > kRulesMax) return more;
      }
    }
    rules = std::move(more);
  }
  return rules;
}

Result<std::vector<SizeSource>> SizeSourcesOf(const Json& json,
                                              const std::string& name) {
  const Json list = json.is_array() ? json : Json::array({json});
  if (list.empty()) return InvalidArgumentError("\"" + name + "\" is empty");
  std::vector<SizeSource> sources;
  for (const Json& source : list) {
    if (source.is_string()) {
      sources.emplace_back(source.get<std::string>());
      continue;
    }
    HF_ASSIGN_OR_RETURN(const int64_t size, CountOf(source, name));
    sources.emplace_back(size);
  }
  return sources;
}

Status ParseSizes(const Json& json, RecipeRules& rules) {
  if (!json.is_object()) {
    return InvalidArgumentError("\"sizes\" is " + WithArticle(json) +
                                ", want an object");
  }
  for (const auto& [name, source] : json.items()) {
    const Result<std::vector<SizeSource>> sources = SizeSourcesOf(source, name);
    if (!sources.ok()) return sources.status().WithContext("\"sizes\"");
    rules.sizes[name] = *sources;
  }
  return Status();
}

Status ParseDocument(const Json& json, RecipeRules& rules) {
  const Json version = json.value("recipe", Json());
  if (version != 1) {
    return InvalidArgumentError(
        "\"recipe\", the version of its language (got " + ShortDump(version) +
        ", want 1)");
  }
  HF_RETURN_IF_ERROR(
      CheckMembers(json, {"recipe", "about", "sizes", "rules", "rest"}));
  if (json.contains("about")) {
    HF_ASSIGN_OR_RETURN(rules.about, TextOf(json["about"], "about"));
  }
  if (json.contains("sizes")) {
    HF_RETURN_IF_ERROR(ParseSizes(json["sizes"], rules));
  }
  if (json.contains("rest")) {
    const Json& rest = json["rest"];
    if (rest != "keep" && rest != "drop") {
      return InvalidArgumentError("\"rest\" (got " + ShortDump(rest) +
                                  ", want \"keep\" or \"drop\")");
    }
    rules.rest =
        rest == "keep" ? RecipeRules::Rest::kKeep : RecipeRules::Rest::kDrop;
  }
  const Json list = json.value("rules", Json());
  if (!list.is_array()) return InvalidArgumentError("it has no list \"rules\"");
  for (size_t i = 0; i < list.size(); ++i) {
    HF_RETURN_IF_ERROR(RuleParser(list[i], i + 1).Parse().status());
    const std::vector<Json> singles = SingleRules(list[i]);
    if (rules.rules.size() + singles.size() > kRulesMax) {
      return InvalidArgumentError("more than " + std::to_string(kRulesMax) +
                                  " rules, one for each text of \"names\"");
    }
    for (const Json& single : singles) {
      HF_ASSIGN_OR_RETURN(RecipeRule rule, RuleParser(single, i + 1).Parse());
      rules.rules.push_back(std::move(rule));
    }
  }
  return Status();
}

}  // namespace

Status RecipeRule::Error(const std::string& why) const {
  return InContext(InvalidArgumentError(why));
}

Status RecipeRule::InContext(const Status& status) const {
  return status.WithContext("rule " + std::to_string(number) +
                            (label.empty() ? "" : " (" + label + ")"));
}

Result<RecipeRules> ParseRecipeRules(std::string_view json) {
  if (json.size() > kTextBytesMax) {
    return InvalidArgumentError(
        "recipe: a text of " + std::to_string(json.size()) +
        " bytes (want at most " + std::to_string(kTextBytesMax) + ")");
  }
  const Result<Json> parsed = ParseUniqueJson(json);
  if (!parsed.ok()) {
    return InvalidArgumentError("recipe: " +
                                std::string(parsed.status().message()));
  }
  RecipeRules rules;
  rules.text = std::string(json);
  const Status status = ParseDocument(*parsed, rules);
  if (!status.ok()) return status.WithContext("recipe");
  return rules;
}

Result<RecipeRules> ReversedRules(const RecipeRules& rules) {
  RecipeRules reversed = rules;
  reversed.rules.clear();
  for (const RecipeRule& rule : rules.rules) {
    if (rule.kind == RecipeRule::Kind::kDrop) continue;
    if (rule.kind == RecipeRule::Kind::kMatch || rule.dequantize) {
      return rule
          .Error(std::string("a rule with \"") +
                 (rule.dequantize ? "dequantize" : "match") +
                 "\" cannot run backwards")
          .WithContext("recipe");
    }
    RecipeRule& back = reversed.rules.emplace_back(rule);
    back.from = rule.to[0];
    back.left_out.assign(rule.to.begin() + 1, rule.to.end());
    back.to = {rule.from};
    back.cast.reset();
    back.otherwise.reset();
    if (back.axes) std::swap(back.axes->source, back.axes->target);
    std::swap(back.from_names, back.to_names);
    std::swap(back.stacked, back.split);
  }
  return reversed;
}

}  // namespace holdfast
