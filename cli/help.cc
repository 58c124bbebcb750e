#include "cli/help.h"

#include <algorithm>
#include <map>
#include <vector>

#include "holdfast/version.h"

namespace holdfast::cli {
namespace {

constexpr size_t kHelpLineWidth = 78;
constexpr std::string_view kStores = "stores";  // the group

constexpr std::string_view kAbout =
    "Looks into training checkpoints: Orbax (old and new layouts), bare OCDBT "
    "databases and zarr arrays. PATH may be a directory of steps, a step, an "
    "item, a database or an array; holdfast tells them apart. Every PATH may "
    "be a URL: gs://, s3:// or, for reading, http://, https:// and "
    "hf://org/model.";

// Folds `text` at spaces into lines that begin with `indent` spaces. The first
// line already has `column` columns.
std::string Fold(std::string_view text, size_t indent, size_t column) {
  std::string folded;
  while (!text.empty()) {
    const size_t length = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, length);
    if (column > indent && column + 1 + word.size() > kHelpLineWidth) {
      folded += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      folded += ' ';
      ++column;
    }
    folded += word;
    column += word.size();
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return folded + "\n";
}

// Returns "  term   meaning". The meaning begins at `column`.
std::string Entry(const std::string& term, std::string_view meaning,
                  size_t column) {
  std::string line = "  " + term;
  if (line.size() + 2 > column) {
    line += "\n" + std::string(column, ' ');
  } else {
    line.resize(column, ' ');
  }
  return line + Fold(meaning, column, column);
}

// Returns an entry for each flag, with the sentences for `verb`, or for all
// verbs if that is null.
std::string FlagEntries(const std::vector<const Flag*>& flags,
                        const Verb* verb) {
  size_t column = 0;
  for (const Flag* flag : flags) {
    column = std::max(column, FlagSpelling(*flag).size() + 4);
  }
  std::string text;
  for (const Flag* flag : flags) {
    const std::string_view sentence =
        verb != nullptr ? HelpOf(*flag, *verb) : flag->help;
    text += Entry(FlagSpelling(*flag), FlagHelp(*flag, sentence), column);
  }
  return text;
}

// Returns "Object stores: --endpoint, ... (holdfast help stores)".
std::string FlagNamesLine(const std::string& title,
                          const std::vector<const Flag*>& flags) {
  std::string names;
  for (const Flag* flag : flags) {
    names += (names.empty() ? "--" : ", --") + std::string(flag->name);
  }
  names += " (holdfast help " + std::string(kStores) + ")";
  return title + ":\n  " + Fold(names, 2, 2);
}

std::string ExitCodes() {
  std::string text;
  for (const ExitCode& exit : AllExitCodes()) {
    text += Entry(std::to_string(exit.code), exit.meaning, 8);
  }
  return text;
}

// Returns the entries of a group's verbs below its title.
std::string VerbEntries(std::string_view group, std::string_view title) {
  std::string text = std::string(title) + ":\n";
  for (const Verb& verb : AllVerbs()) {
    if (verb.group != group) continue;
    text += Entry(std::string(verb.name), verb.summary, 15);
  }
  return text;
}

std::string VerbsByGroup() {
  std::string text;
  for (const LinePair& group : Pairs(VerbGroups())) {
    text += VerbEntries(group.first, group.second);
  }
  return text;
}

std::string Synopsis(const Verb& verb) {
  std::string line = "holdfast " + std::string(verb.name) + " [OPTION...]";
  if (!verb.operands.empty()) line += " " + std::string(verb.operands);
  return line;
}

// Escapes text for roff, which interprets a backslash, "-" as a hyphen, and a
// dot or quote at the start of a line as a request.
std::string Roff(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else if (c == '\'') {
      escaped += "\\(aq";
    } else if (c == '~') {
      escaped += "\\(ti";
    } else if (c == '`') {
      escaped += "\\(ga";
    } else {
      escaped += c;
    }
  }
  return escaped.starts_with('.') ? "\\&" + escaped : escaped;
}

// Returns the sentences for all verbs.
std::string AllHelp(const Flag& flag) {
  std::string text(flag.help);
  for (const LinePair& own : Pairs(flag.help_by_verb)) {
    text += "; " + std::string(own.first) + ": " + std::string(own.second);
  }
  return text;
}

std::string RoffFlag(const Flag& flag) {
  std::string text = ".TP\n";
  if (!flag.short_name.empty()) {
    text += "\\fB\\-" + std::string(flag.short_name) + "\\fR, ";
  }
  text += "\\fB" + Roff("--" + std::string(flag.name)) + "\\fR";
  if (flag.takes_value()) {
    text += " \\fI" + std::string(flag.value_name) + "\\fR";
  }
  text += "\n" + Roff(FlagHelp(flag, AllHelp(flag))) + ".";
  if (IsGlobal(flag)) return text + "\n";
  text += "\nOf:";
  for (const Verb& verb : AllVerbs()) {
    if (Applies(flag, verb)) text += " " + std::string(verb.name);
  }
  return text + ".\n";
}

std::string RoffVerb(const Verb& verb) {
  std::string text =
      ".SS \"" + Roff(Synopsis(verb)) + "\"\n" + Roff(verb.description) + "\n";
  for (const auto& [command, meaning] : Pairs(verb.examples)) {
    text += ".TP\n\\fB" + Roff(command) + "\\fR\n" + Roff(meaning) + "\n";
  }
  return text;
}

}  // namespace

std::string FlagSpelling(const Flag& flag) {
  std::string text = "    ";
  if (!flag.short_name.empty()) {
    text = "-" + std::string(flag.short_name) + ", ";
  }
  text += "--" + std::string(flag.name);
  if (flag.takes_value()) text += " " + std::string(flag.value_name);
  return text;
}

std::string Joined(std::string_view list, std::string_view separator) {
  std::string text;
  for (const std::string_view word : Lines(list)) {
    if (!text.empty()) text += separator;
    text += word;
  }
  return text;
}

std::string_view HelpOf(const Flag& flag, const Verb& verb) {
  return FindPair(flag.help_by_verb, verb.name).value_or(flag.help);
}

std::string FlagHelp(const Flag& flag, std::string_view sentence) {
  std::string text(sentence);
  // Choices with bars are not folded.
  constexpr size_t kOneWordMax = 40;
  const bool is_short = flag.choices.size() <= kOneWordMax;
  if (!flag.choices.empty()) {
    text += " (" + Joined(flag.choices, is_short ? "|" : ", ") + ")";
  }
  if (!flag.default_shown.empty()) {
    text += " [default: " + std::string(flag.default_shown) + "]";
  }
  return text;
}

std::string Overview() {
  return "Usage: holdfast VERB [OPTION...] PATH...\n" + VerbsByGroup() +
         "holdfast help VERB says more about a verb, and holdfast --help about "
         "all.\n";
}

std::string GeneralHelp() {
  std::vector<const Flag*> global;
  for (const Flag& flag : AllFlags()) {
    if (IsGlobal(flag)) global.push_back(&flag);
  }
  return "holdfast " HOLDFAST_VERSION "\n" + Fold(kAbout, 0, 0) +
         "\nUsage: holdfast VERB [OPTION...] PATH...\n\n" + VerbsByGroup() +
         VerbEntries("", "Help, and for shells") + "\nOptions:\n" +
         FlagEntries(global, nullptr) + "\nExit codes:\n" + ExitCodes() +
         "\nholdfast help VERB says more about a verb.\n";
}

std::string VerbHelp(const Verb& verb, bool with_stores) {
  std::map<std::string_view, std::vector<const Flag*>> by_title;
  for (const Flag& flag : AllFlags()) {
    if (!Applies(flag, verb)) continue;
    by_title[*FindPair(OptionGroups(), flag.group)].push_back(&flag);
  }
  std::string text = std::string(verb.summary) +
                     ".\n\nUsage: " + Synopsis(verb) + "\n\n" +
                     Fold(verb.description, 0, 0);
  const auto own = by_title.find("");
  if (own != by_title.end()) {
    text += "\nOptions:\n" + FlagEntries(own->second, &verb);
  }
  for (const LinePair& group : Pairs(OptionGroups())) {
    const auto shared = by_title.find(group.second);
    if (group.second.empty() || shared == by_title.end()) continue;
    const std::string title(group.second);
    const bool is_named_only = group.first == kStores && !with_stores;
    text += "\n" + (is_named_only
                        ? FlagNamesLine(title, shared->second)
                        : title + ":\n" + FlagEntries(shared->second, &verb));
  }
  text += "\nExamples:\n";
  for (const auto& [command, meaning] : Pairs(verb.examples)) {
    text += "  " + std::string(command) + "\n      " + Fold(meaning, 6, 6);
  }
  return text;
}

std::string GroupHelp(std::string_view group) {
  const auto title = FindPair(OptionGroups(), group);
  if (!title || title->empty()) return "";
  std::vector<const Flag*> flags;
  for (const Flag& flag : AllFlags()) {
    if (flag.group == group) flags.push_back(&flag);
  }
  return std::string(*title) + ":\n" + FlagEntries(flags, nullptr);
}

std::string UsageHint(const Verb& verb) {
  const std::string name(verb.name);
  return "holdfast " + name + " " + std::string(verb.operands) +
         "; holdfast help " + name + " lists its options";
}

std::string ManPage() {
  std::string text =
      ".TH HOLDFAST 1 \"\" \"holdfast " HOLDFAST_VERSION
      "\" \"User Commands\"\n"
      ".SH NAME\nholdfast \\- look into training checkpoints\n"
      ".SH SYNOPSIS\n\\fBholdfast\\fR \\fIVERB\\fR [\\fIOPTION\\fR...] "
      "\\fIPATH\\fR...\n.SH DESCRIPTION\n" +
      Roff(kAbout) + "\n.SH VERBS\n";
  for (const Verb& verb : AllVerbs()) text += RoffVerb(verb);
  text += ".SH OPTIONS\n";
  for (const Flag& flag : AllFlags()) text += RoffFlag(flag);
  text += ".SH \"EXIT STATUS\"\n";
  for (const ExitCode& exit : AllExitCodes()) {
    text += ".TP\n\\fB" + std::to_string(exit.code) + "\\fR\n" +
            Roff(exit.meaning) + ".\n";
  }
  return text +
         ".SH ENVIRONMENT\n.TP\n\\fBNO_COLOR\\fR\nWhen set and not empty, no "
         "colors are used unless asked for.\n"
         ".TP\n\\fBLC_ALL\\fR, \\fBLC_CTYPE\\fR, \\fBLANG\\fR\nTrees are "
         "drawn in ASCII unless the locale is UTF\\-8.\n";
}

}  // namespace holdfast::cli
