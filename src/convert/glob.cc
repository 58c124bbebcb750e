#include "holdfast/tools/glob.h"

#include <cstddef>
#include <optional>

namespace holdfast {
namespace {

// One pattern element against one character. `used` is its length.
struct OneMatch {
  bool matches = false;
  size_t used = 1;
};

// "[a-z]" at the start of `pattern`; nullopt when it is not closed, and `[`
// then stands for itself.
std::optional<OneMatch> MatchSet(std::string_view pattern, char c) {
  size_t i = 1;
  const bool negated = i < pattern.size() && pattern[i] == '!';
  if (negated) ++i;
  const size_t begin = i;
  bool found = false;
  // A `]` that comes first belongs to the set.
  while (i < pattern.size() && (pattern[i] != ']' || i == begin)) {
    const bool range = i + 2 < pattern.size() && pattern[i + 1] == '-' &&
                       pattern[i + 2] != ']';
    const char last = range ? pattern[i + 2] : pattern[i];
    found = found || (pattern[i] <= c && c <= last);
    i += range ? 3 : 1;
  }
  if (i >= pattern.size()) return std::nullopt;
  return OneMatch{found != negated, i + 1};
}

// REQUIRES: pattern not empty and not at a `*`.
OneMatch MatchOne(std::string_view pattern, char c) {
  if (pattern[0] == '?') return {true, 1};
  if (pattern[0] == '\\' && pattern.size() > 1) {
    return {pattern[1] == c, 2};
  }
  if (pattern[0] == '[') {
    if (const auto match = MatchSet(pattern, c)) return *match;
  }
  return {pattern[0] == c, 1};
}

}  // namespace

// Greedy with one point of return, the last star: linear in practice and
// never exponential.
bool GlobMatches(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0;
  std::optional<size_t> star;
  size_t star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
      continue;
    }
    if (p < pattern.size()) {
      const OneMatch match = MatchOne(pattern.substr(p), text[t]);
      if (match.matches) {
        p += match.used;
        ++t;
        continue;
      }
    }
    if (!star) return false;
    p = *star + 1;
    t = ++star_text;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool GlobSelects(std::string_view pattern, std::string_view name) {
  if (name.starts_with(pattern) &&
      (name.size() == pattern.size() || name[pattern.size()] == '.')) {
    return true;
  }
  return GlobMatches(pattern, name);
}

}  // namespace holdfast
