// Regular expressions in Python's syntax, matched by PCRE2.
//
// Text is Unicode, as Python's str patterns take it. A match is bounded in
// steps and memory, so that no pattern can run for ever.
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

// Group 0 is the whole match; a group that took no part is absent.
using RegexMatch = std::vector<std::optional<std::string_view>>;

class Regex {
 public:
  // `pattern` as Python writes it.
  static Result<Regex> Compile(std::string_view pattern);

  // Python's re.fullmatch: the match of the whole subject, or nothing.
  Result<std::optional<RegexMatch>> FullMatch(std::string_view subject) const;

  // Python's match.expand: `replacement` with \1, \g<1>, \g<name> replaced by
  // their groups, and escapes by what they stand for. A group that took no
  // part is empty. REQUIRES: a match of this expression.
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
