#include "cli/words.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <utility>

#include "cli/units.h"

namespace holdfast::cli {
namespace {

// Returns "a, b or c".
std::string ListText(const std::vector<std::string_view>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 < words.size() ? ", " : " or ";
    text += words[i];
  }
  return text;
}

// Returns "a number from 1 to 1024".
std::string RangeText(const Flag& flag) {
  std::string text = "a number";
  if (flag.min.empty()) return text;
  if (flag.max.empty()) return text + " >= " + std::string(flag.min);
  return text + " from " + std::string(flag.min) + " to " +
         std::string(flag.max);
}

// Returns what the option's values look like.
std::string WantedText(const Flag& flag) {
  if (!flag.want.empty()) return std::string(flag.want);
  if (!flag.choices.empty()) return ListText(Lines(flag.choices));
  if (flag.type == "bytes") {
    return flag.min == "0" ? "a size such as 512M, or 0"
                           : "a size such as 512M or 2GiB";
  }
  if (flag.type == "seconds") return "a time such as 90m, 12h or 7d";
  if (flag.type == "int" || flag.type == "float") return RangeText(flag);
  return std::string(flag.value_name);
}

// Returns true if the option has no choices, or this one.
bool IsChoice(const Flag& flag, std::string_view value) {
  const std::vector<std::string_view> choices = Lines(flag.choices);
  return choices.empty() || std::ranges::find(choices, value) != choices.end();
}

// Returns null if the value has another form than the option's type says.
std::optional<int64_t> NumberOf(const Flag& flag, std::string_view value) {
  using Limits = std::numeric_limits<int64_t>;
  const auto bound = [](std::string_view text, int64_t without) {
    return ParseInt(text, Limits::min(), Limits::max()).value_or(without);
  };
  if (flag.type != "bytes") {
    return ParseInt(value, bound(flag.min, Limits::min()),
                    bound(flag.max, Limits::max()));
  }
  if (value == "0" && flag.min == "0") return 0;
  const Result<uint64_t> bytes = ParseBytes(value);
  if (!bytes.ok()) return std::nullopt;
  return static_cast<int64_t>(*bytes);
}

std::optional<double> FloatOf(const Flag& flag, std::string_view value) {
  if (flag.type == "seconds") return ParseSeconds(value);
  if (flag.type != "float") return NumberOf(flag, value);
  const std::optional<double> number = ParseNumber(value);
  const bool fits = number &&
                    *number >= ParseNumber(flag.min).value_or(*number) &&
                    *number <= ParseNumber(flag.max).value_or(*number);
  return fits ? number : std::nullopt;
}

template <typename Value>
Status StoreFound(const Flag& flag, std::string_view value,
                  const std::optional<Value>& found, Value* member) {
  if (!found) return BadValue(flag, value);
  *member = *found;
  return Status();
}

// Stores the value of a word, if the option has that choice.
template <typename Value>
Status StoreChoice(
    const Flag& flag, std::string_view value,
    std::initializer_list<std::pair<std::string_view, Value>> words,
    Value* member) {
  for (const auto& [word, meant] : words) {
    if (value != word || !IsChoice(flag, value)) continue;
    *member = meant;
    return Status();
  }
  return BadValue(flag, value);
}

template <typename Rule>
Status AddRule(const Flag& flag, Result<Rule> rule, std::vector<Rule>* rules) {
  if (!rule.ok())
    return rule.status().WithContext("--" + std::string(flag.name));
  rules->push_back(*std::move(rule));
  return Status();
}

}  // namespace

Status BadValue(const Flag& flag, std::string_view value) {
  return InvalidArgumentError("--" + std::string(flag.name) + ": got " +
                              Quoted(value) + ", want " + WantedText(flag));
}

// A switch turns its default round. The first of two choices is true.
Status Store(const Flag& flag, std::string_view value, bool* member) {
  if (!IsChoice(flag, value)) return BadValue(flag, value);
  *member = flag.choices.empty() ? flag.default_value != "ON"
                                 : value == Lines(flag.choices)[0];
  return Status();
}

Status Store(const Flag& flag, std::string_view value, int64_t* member) {
  const bool fits = IsChoice(flag, value);
  return StoreFound(flag, value, fits ? NumberOf(flag, value) : std::nullopt,
                    member);
}

Status Store(const Flag& flag, std::string_view value, double* member) {
  return StoreFound(flag, value, FloatOf(flag, value), member);
}

Status Store(const Flag& flag, std::string_view value, std::string* member) {
  const bool fits = IsChoice(flag, value) &&
                    (flag.may_be_empty == "ON" || !value.empty()) &&
                    value.find(flag.contains) != std::string_view::npos;
  if (!fits) return BadValue(flag, value);
  *member = value;
  return Status();
}

Status Store(const Flag& flag, std::string_view value,
             std::vector<std::string>* member) {
  return Store(flag, value, &member->emplace_back());
}

Status Store(const Flag& flag, std::string_view value, When* member) {
  return StoreChoice(flag, value,
                     {{"auto", When::kAuto},
                      {"always", When::kAlways},
                      {"never", When::kNever}},
                     member);
}

Status Store(const Flag& flag, std::string_view value, SortKey* member) {
  return StoreChoice(flag, value,
                     {{"name", SortKey::kName},
                      {"size", SortKey::kSize},
                      {"mean", SortKey::kMean},
                      {"std", SortKey::kStd},
                      {"l2", SortKey::kL2},
                      {"absmax", SortKey::kAbsMax},
                      {"zeros", SortKey::kZeros}},
                     member);
}

Status Store(const Flag& flag, std::string_view value, MissingChunks* member) {
  return StoreChoice(
      flag, value,
      {{"fill", MissingChunks::kFill}, {"refuse", MissingChunks::kRefuse}},
      member);
}

Status Store(const Flag& flag, std::string_view value, MergePrefer* member) {
  return StoreChoice(
      flag, value,
      {{"first", MergePrefer::kFirst}, {"last", MergePrefer::kLast}}, member);
}

Status Store(const Flag& flag, std::string_view value, Format* member) {
  if (!IsChoice(flag, value)) return BadValue(flag, value);
  return StoreFound(flag, value, FormatFromName(value), member);
}

Status Store(const Flag& flag, std::string_view value, Compression* member) {
  return StoreFound(flag, value, CompressionFromName(value), member);
}

Status Store(const Flag& flag, std::string_view value, LinkKind* member) {
  return StoreFound(flag, value, LinkKindFromName(value), member);
}

Status Store(const Flag& flag, std::string_view value,
             std::vector<LeafMap::Rename>* member) {
  return AddRule(flag, ParseRename(value), member);
}

Status Store(const Flag& flag, std::string_view value,
             std::vector<LeafMap::Cast>* member) {
  return AddRule(flag, ParseCast(value), member);
}

Status Store(const Flag& flag, std::string_view value,
             std::vector<LeafMap::Shards>* member) {
  return AddRule(flag, ParseShards(value), member);
}

Status Store(const Flag& flag, std::string_view value,
             std::vector<SpecRule>* member) {
  return AddRule(flag, ParseSpecRule(value), member);
}

Status Store(const Flag& flag, std::string_view value, Mesh* member) {
  Result<Mesh> mesh = ParseMesh(value);
  if (!mesh.ok())
    return mesh.status().WithContext("--" + std::string(flag.name));
  *member = *std::move(mesh);
  return Status();
}

Status Store(const Flag& flag, std::string_view value,
             std::map<std::string, int64_t>* sizes) {
  const size_t equals = std::min(value.find('='), value.size());
  const auto size =
      NumberOf(flag, value.substr(std::min(equals + 1, value.size())));
  if (equals == 0 || !size) return BadValue(flag, value);
  (*sizes)[std::string(value.substr(0, equals))] = *size;
  return Status();
}

Status Store(const Flag& flag, std::string_view value,
             std::vector<double>* member) {
  member->clear();
  for (const std::string_view part : Split(value, ',')) {
    const auto number = ParseNumber(part);
    if (!number) return BadValue(flag, value);
    member->push_back(*number);
  }
  return Status();
}

}  // namespace holdfast::cli
