#include "cli/flags.h"

#include <algorithm>

#include "cli/units.h"

namespace holdfast::cli {
namespace {

constexpr std::string_view kEveryVerb = "all";  // the set

constexpr ExitCode kExitCodes[] = {
    {0, "fine"},
    {1, "the data differ or are damaged"},
    {2, "the command line is wrong"},
    {3, "any other failure: not found, not readable, disk full, no network"},
    {130, "interrupted"},
};

// Returns true if the verb is in the list, or in a set that is.
bool HasVerb(std::string_view list, std::string_view verb) {
  for (const std::string_view word : Lines(list)) {
    if (word == verb) return true;
    for (const VerbSet& set : AllVerbSets()) {
      if (set.name == word && HasVerb(set.verbs, verb)) return true;
    }
  }
  return false;
}

}  // namespace

std::span<const ExitCode> AllExitCodes() { return kExitCodes; }

std::vector<std::string_view> Lines(std::string_view list) {
  if (list.empty()) return {};
  return Split(list, '\n');
}

std::vector<LinePair> Pairs(std::string_view list) {
  const std::vector<std::string_view> lines = Lines(list);
  std::vector<LinePair> pairs;
  for (size_t i = 0; i + 1 < lines.size(); i += 2) {
    pairs.push_back({lines[i], lines[i + 1]});
  }
  return pairs;
}

std::optional<std::string_view> FindPair(std::string_view list,
                                         std::string_view first) {
  for (const LinePair& pair : Pairs(list)) {
    if (pair.first == first) return pair.second;
  }
  return std::nullopt;
}

const Verb* FindVerb(std::string_view name) {
  for (const Verb& verb : AllVerbs()) {
    if (verb.name == name) return &verb;
  }
  return nullptr;
}

const Flag* FindFlag(std::string_view name) {
  for (const Flag& flag : AllFlags()) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

const Flag* FindShortFlag(char name) {
  for (const Flag& flag : AllFlags()) {
    if (flag.short_name == std::string_view(&name, 1)) return &flag;
  }
  return nullptr;
}

bool IsOption(std::string_view option) {
  return std::ranges::find(AllFlags(), option, &Flag::option) !=
         AllFlags().end();
}

bool Applies(const Flag& flag, const Verb& verb) {
  return HasVerb(flag.verbs, verb.name);
}

bool IsGlobal(const Flag& flag) { return flag.verbs == kEveryVerb; }

}  // namespace holdfast::cli
