// A rule of Transforms, ready to be matched with keys.
//
// Thread-safety: one thread at a time. Ownership: borrows the transform.
// Errors: those of Regex, prefixed with "transform 'PATTERN': ".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ground/names/regex.h"
#include "holdfast/orbax/transform.h"
#include "holdfast/status.h"

namespace holdfast {

// A pattern that is compiled when it is first tried, so that errors appear in
// the same order as in Python.
class LazyRegex {
 public:
  explicit LazyRegex(std::string_view pattern) : pattern_(pattern) {}

  Result<std::optional<RegexMatch>> FullMatch(std::string_view subject);
  // REQUIRES: `match` is a match of this expression.
  Result<std::string> Expand(std::string_view replacement,
                             const RegexMatch& match) const;

 private:
  std::string_view pattern_;
  std::optional<Regex> regex_;
};

class Rule {
 public:
  explicit Rule(const std::pair<std::string, AnyTransform>& named);

  const Transform* as_transform() const;
  const RestoreTransform* as_restore_transform() const;
  bool use_fallback() const;
  bool has_multi_value_fn() const;
  Result<std::optional<RegexMatch>> FullMatch(std::string_view key) {
    return regex_.FullMatch(key);
  }
  // Returns the key in the original tree for a new key that matched.
  Result<std::string> OriginalKey(std::string_view key,
                                  const RegexMatch& match) const;
  // Applies value_fn to the original value.
  Result<Tree> Value(const Tree& original) const;

 private:
  const AnyTransform* transform_;
  LazyRegex regex_;
};

// Returns the rules. InvalidArgument for a rule that contradicts itself.
Result<std::vector<Rule>> MakeRules(const Transforms& transforms);

}  // namespace holdfast
