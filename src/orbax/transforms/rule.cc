#include "orbax/transforms/rule.h"

#include <utility>

#include "ground/base/status_macros.h"
#include "ground/names/code_points.h"

namespace holdfast {
namespace {

Status Excludes(std::string_view one, std::string_view other) {
  return InvalidArgumentError("transform: " + std::string(one) + " and " +
                              std::string(other) + " exclude each other");
}

template <typename T>
Status CheckFields(const T& transform) {
  const bool has_original_key = transform.original_key.has_value();
  const bool has_value_fn = static_cast<bool>(transform.value_fn);
  const bool has_multi_value_fn = static_cast<bool>(transform.multi_value_fn);
  if (transform.use_fallback) {
    if (has_original_key) return Excludes("use_fallback", "original_key");
    if (has_value_fn) return Excludes("use_fallback", "value_fn");
    if (has_multi_value_fn) return Excludes("use_fallback", "multi_value_fn");
  }
  if (has_multi_value_fn) {
    if (has_original_key) return Excludes("multi_value_fn", "original_key");
    if (has_value_fn) {
      return InvalidArgumentError(
          "Cannot provide both multi_value_fn and value_fn in a transform");
    }
  }
  return Status();
}

}  // namespace

Status CheckTransform(const AnyTransform& transform) {
  if (const auto* plain = std::get_if<Transform>(&transform)) {
    return CheckFields(*plain);
  }
  const auto& restore = std::get<RestoreTransform>(transform);
  HF_RETURN_IF_ERROR(CheckFields(restore));
  if (restore.multi_value_fn_input_args && !restore.multi_value_fn) {
    return InvalidArgumentError(
        "transform: multi_value_fn_input_args needs multi_value_fn");
  }
  return Status();
}

Result<std::optional<RegexMatch>> LazyRegex::FullMatch(
    std::string_view subject) {
  if (!regex_) {
    HF_ASSIGN_OR_RETURN(regex_, Regex::Compile(pattern_));
  }
  return regex_->FullMatch(subject);
}

Result<std::string> LazyRegex::Expand(std::string_view replacement,
                                      const RegexMatch& match) const {
  Result<std::string> text = regex_->Expand(replacement, match);
  if (text.ok()) return text;
  return text.status().WithContext("original_key " + PythonRepr(replacement));
}

Rule::Rule(const std::pair<std::string, AnyTransform>& named)
    : transform_(&named.second), regex_(named.first) {}

const Transform* Rule::as_transform() const {
  return std::get_if<Transform>(transform_);
}

const RestoreTransform* Rule::as_restore_transform() const {
  return std::get_if<RestoreTransform>(transform_);
}

bool Rule::use_fallback() const {
  return std::visit([](const auto& t) { return t.use_fallback; }, *transform_);
}

bool Rule::has_multi_value_fn() const {
  return std::visit(
      [](const auto& t) { return static_cast<bool>(t.multi_value_fn); },
      *transform_);
}

Result<std::string> Rule::OriginalKey(std::string_view key,
                                      const RegexMatch& match) const {
  const std::optional<std::string>& original_key = std::visit(
      [](const auto& t) -> const std::optional<std::string>& {
        return t.original_key;
      },
      *transform_);
  if (!original_key) return std::string(key);
  return regex_.Expand(*original_key, match);
}

Result<Tree> Rule::Value(const Tree& original) const {
  const auto& value_fn = std::visit(
      [](const auto& t) -> const std::function<Result<Tree>(const Tree&)>& {
        return t.value_fn;
      },
      *transform_);
  if (!value_fn) return original;
  return value_fn(original);
}

Result<std::vector<Rule>> MakeRules(const Transforms& transforms) {
  std::vector<Rule> rules;
  rules.reserve(transforms.size());
  for (const auto& named : transforms) {
    const Status status = CheckTransform(named.second);
    if (!status.ok()) return status.WithContext(PythonRepr(named.first));
    rules.emplace_back(named);
  }
  return rules;
}

}  // namespace holdfast
