#include "holdfast/tools/glob.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "ground/base/status_macros.h"
#include "ground/names/regex.h"

namespace holdfast {
namespace {

// The result of matching one pattern element against one character. `used` is
// the element's length.
struct OneMatch {
  bool matches = false;
  size_t used = 1;
};

// Matches "[a-z]" at the start of `pattern`. Returns nullopt if the set is not
// closed; then `[` is an ordinary character.
std::optional<OneMatch> MatchSet(std::string_view pattern, char c) {
  size_t i = 1;
  const bool negated = i < pattern.size() && pattern[i] == '!';
  if (negated) ++i;
  const size_t begin = i;
  bool found = false;
  // A `]` in first position belongs to the set.
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

// Matches the first element of `pattern`. REQUIRES: `pattern` is not empty and
// does not start with `*`.
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

// Matches greedily and backtracks only to the last star, so the time is linear
// in practice and never exponential.
bool MatchWithoutBraces(std::string_view pattern, std::string_view text) {
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

// The positions of an opening brace, its commas and its closing brace.
struct Brace {
  size_t open = std::string_view::npos;
  std::vector<size_t> commas;
  size_t close = std::string_view::npos;
};

// Returns the first closed brace that has a comma.
std::optional<Brace> FindBrace(std::string_view pattern) {
  std::vector<Brace> open;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\') {
      ++i;
    } else if (c == '{') {
      open.push_back({i, {}, 0});
    } else if (c == ',' && !open.empty()) {
      open.back().commas.push_back(i);
    } else if (c == '}' && !open.empty()) {
      open.back().close = i;
      if (!open.back().commas.empty()) return open.back();
      open.pop_back();
    }
  }
  return std::nullopt;
}

// Braces multiply. A pattern that would expand to more globs than this is not
// expanded.
constexpr size_t kAlternativeCountMax = 1000;

// Returns the globs without braces that `pattern` expands to. The innermost
// brace is expanded first, so that the braces around it contain none.
std::vector<std::string> Alternatives(std::string_view pattern) {
  std::vector<std::string> done;
  std::vector<std::string> open = {std::string(pattern)};
  while (!open.empty()) {
    const std::string glob = std::move(open.back());
    open.pop_back();
    const std::optional<Brace> brace = FindBrace(glob);
    if (!brace) {
      done.push_back(glob);
      continue;
    }
    if (done.size() + open.size() + brace->commas.size() >=
        kAlternativeCountMax) {
      return {std::string(pattern)};
    }
    size_t begin = brace->open + 1;
    std::vector<size_t> ends = brace->commas;
    ends.push_back(brace->close);
    for (const size_t end : ends) {
      open.push_back(glob.substr(0, brace->open) +
                     glob.substr(begin, end - begin) +
                     glob.substr(brace->close + 1));
      begin = end + 1;
    }
  }
  return done;
}

bool IsNameOrAbove(std::string_view pattern, std::string_view name) {
  return name.starts_with(pattern) &&
         (name.size() == pattern.size() || name[pattern.size()] == '.');
}

bool AnySelects(const std::vector<std::string>& globs, std::string_view name) {
  return std::any_of(globs.begin(), globs.end(), [&](const auto& glob) {
    return IsNameOrAbove(glob, name) || MatchWithoutBraces(glob, name);
  });
}

}  // namespace

bool GlobMatches(std::string_view pattern, std::string_view text) {
  const std::vector<std::string> globs = Alternatives(pattern);
  return std::any_of(globs.begin(), globs.end(), [&](const auto& glob) {
    return MatchWithoutBraces(glob, text);
  });
}

bool GlobSelects(std::string_view pattern, std::string_view name) {
  return SelectedByGlob(std::string(pattern))(name);
}

NamePredicate SelectedByGlob(std::string glob) {
  std::vector<std::string> globs = Alternatives(glob);
  std::vector<std::string> dotted;
  if (glob.find('/') != std::string::npos) {
    std::replace(glob.begin(), glob.end(), '/', '.');
    dotted = Alternatives(glob);
  }
  return [glob = std::move(glob), globs = std::move(globs),
          dotted = std::move(dotted)](std::string_view name) {
    return IsNameOrAbove(glob, name) || AnySelects(globs, name) ||
           AnySelects(dotted, name);
  };
}

Result<NamePredicate> SelectedByRegex(std::string_view pattern) {
  HF_ASSIGN_OR_RETURN(Regex regex, Regex::Compile(pattern));
  return NamePredicate([regex = std::move(regex)](std::string_view name) {
    const auto match = regex.FullMatch(name);
    return match.ok() && match->has_value();
  });
}

}  // namespace holdfast
