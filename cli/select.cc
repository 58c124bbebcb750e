#include "cli/select.h"

#include <algorithm>

#include "cli/parse.h"
#include "cli/units.h"
#include "holdfast/tools/glob.h"

namespace holdfast::cli {
namespace {

// Edit distances are computed for at most this many names, because a model may
// have several hundred thousand.
constexpr size_t kNamesLookedAtMax = 20'000;
constexpr size_t kNamesShownMax = 3;

Result<NamePredicate> PredicateOf(const std::string& pattern,
                                  PatternKind kind) {
  if (kind == PatternKind::kRegex) return SelectedByRegex(pattern);
  return SelectedByGlob(pattern);
}

// Returns the pattern's longest part without special characters, which is used
// to find similar names.
std::string_view LongestPlainPart(std::string_view pattern) {
  std::string_view longest;
  size_t begin = 0;
  while (begin < pattern.size()) {
    const size_t end = std::min(pattern.find_first_of("*?[]{},\\^$()|+", begin),
                                pattern.size());
    const std::string_view part = pattern.substr(begin, end - begin);
    if (part.size() > longest.size()) longest = part;
    begin = end + 1;
  }
  while (longest.starts_with('.')) longest.remove_prefix(1);
  while (longest.ends_with('.')) longest.remove_suffix(1);
  return longest;
}

// Returns names that contain `part`, or the name nearest to it.
std::vector<std::string> NamesNear(const std::vector<LeafInfo>& leaves,
                                   std::string_view part) {
  std::vector<std::string> near;
  std::vector<std::string_view> words;
  for (const LeafInfo& leaf : leaves) {
    if (words.size() >= kNamesLookedAtMax) break;
    if (leaf.name.find(part) != std::string::npos &&
        near.size() < kNamesShownMax) {
      near.push_back(PrintableText(leaf.name));
    }
    words.push_back(leaf.name);
    for (const std::string& key : leaf.key) words.push_back(key);
  }
  if (!near.empty()) return near;
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  const std::string_view nearest = Nearest(part, words);
  if (!nearest.empty()) near.push_back(PrintableText(nearest));
  return near;
}

}  // namespace

std::string LeafHint(const std::vector<LeafInfo>& leaves,
                     std::string_view wanted) {
  const std::string_view part = LongestPlainPart(wanted);
  std::string text;
  if (!part.empty()) {
    for (const std::string& name : NamesNear(leaves, part)) {
      text += (text.empty() ? "" : ", ") + name;
    }
  }
  if (text.empty()) return " (holdfast ls lists the leaves)";
  return " (did you mean " + text + "?)";
}

Result<std::vector<size_t>> SelectLeaves(const std::vector<LeafInfo>& leaves,
                                         std::span<const std::string> patterns,
                                         PatternKind kind) {
  std::vector<bool> wanted(leaves.size(), patterns.empty());
  for (const std::string& pattern : patterns) {
    auto selects = PredicateOf(pattern, kind);
    if (!selects.ok()) return selects.status();
    bool found = false;
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (!(*selects)(leaves[i].name)) continue;
      wanted[i] = true;
      found = true;
    }
    if (!found) {
      return NotFoundError("no leaf matches " + Quoted(pattern) +
                           LeafHint(leaves, pattern));
    }
  }
  std::vector<size_t> selected;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (wanted[i]) selected.push_back(i);
  }
  return selected;
}

}  // namespace holdfast::cli
