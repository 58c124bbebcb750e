// Regular expressions in Python's syntax, matched by PCRE2.
//
// Text is Unicode, as in Python's str patterns. A match is bounded in steps and
// memory, so no pattern can run forever.
// Thread-safety: const methods may run concurrently.
// Ownership: a RegexMatch borrows the subject.
// Errors: InvalidArgument "regular expression 'P': WHY" for a malformed one;
// ResourceExhausted for a match beyond the bounds.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

// Group 0 is the whole match; a group that did not participate is nullopt.
using RegexMatch = std::vector<std::optional<std::string_view>>;

class Regex {
 public:
  static Result<Regex> Compile(std::string_view pattern);

  // Python's re.fullmatch: matches the entire subject, or returns nullopt.
  Result<std::optional<RegexMatch>> FullMatch(std::string_view subject) const;

  // Python's match.expand: returns `replacement` with \1, \g<1> and \g<name>
  // replaced by their groups, and escapes by their characters. A group that did
  // not participate is empty. REQUIRES: `match` is a match of this expression.
  Result<std::string> Expand(std::string_view replacement,
                             const RegexMatch& match) const;

 private:
  struct Code;
  Regex(std::string pattern, std::map<std::string, size_t> group_of_name,
        size_t group_count, std::shared_ptr<const Code> code);

  std::string pattern_;
  std::map<std::string, size_t> group_of_name_;
  size_t group_count_;
  std::shared_ptr<const Code> code_;
};

}  // namespace holdfast
