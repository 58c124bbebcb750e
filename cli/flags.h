// The tables of flags and verbs: constants that cmake/options.cmake makes of
// tools/options.json. Parsing, --help, the man page and the shell completions
// use nothing else. Members are texts as they are in that table ("ON" and "OFF"
// for true and false, "" for what is absent); lists are lines.
//
// Thread-safety: constant tables, pure functions.
// Ownership: all text is static.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace holdfast::cli {

// An option as the command takes it.
struct Flag {
  std::string_view option;      // the table's name: "memory_bytes"
  std::string_view name;        // as typed, without "--": "memory"
  std::string_view short_name;  // one letter, or empty
  std::string_view value_name;  // empty: a switch
  std::string_view type;        // "bool", "int", "bytes", "choice", "text", ...
  std::string_view default_value;
  std::string_view default_shown;  // empty: nothing to show
  std::string_view min, max;       // of numbers
  std::string_view choices;
  std::string_view contains;      // what each value must contain
  std::string_view want;          // what errors ask for; empty: by type
  std::string_view may_be_empty;  // of texts
  std::string_view group;
  std::string_view help;          // one sentence, no final period
  std::string_view help_by_verb;  // verbs, each with its own sentence
  std::string_view verbs;         // and sets of verbs

  bool takes_value() const { return !value_name.empty(); }
};

struct Verb {
  std::string_view name;
  std::string_view group;          // empty: for packagers and shells
  std::string_view operands;       // "PATH [PATTERN...]"
  std::string_view operand_count;  // least and most; "": any number
  std::string_view choices;        // of the operand
  std::string_view summary;        // one line, no final period
  std::string_view description;    // a few sentences
  std::string_view examples;       // commands, each with its meaning
};

struct VerbSet {
  std::string_view name;
  std::string_view verbs;  // and other sets
};

std::span<const Flag> AllFlags();
std::span<const Verb> AllVerbs();
std::span<const VerbSet> AllVerbSets();
// Return the groups, each with its title. Options of groups without one are a
// verb's own.
std::string_view OptionGroups();
std::string_view VerbGroups();

// Returns the elements of a member that is a list.
std::vector<std::string_view> Lines(std::string_view list);

// Two lines of a list: a command and its meaning, a group and its title.
struct LinePair {
  std::string_view first;
  std::string_view second;
};
std::vector<LinePair> Pairs(std::string_view list);
// Returns the second line of the pair with this first one, or null.
std::optional<std::string_view> FindPair(std::string_view list,
                                         std::string_view first);

// Returns null if no verb has this name.
const Verb* FindVerb(std::string_view name);
const Flag* FindFlag(std::string_view name);
const Flag* FindShortFlag(char name);

// Returns true if the table has an option of this name.
bool IsOption(std::string_view option);

bool Applies(const Flag& flag, const Verb& verb);
// Returns true for --help and --version, which are also valid without a verb.
bool IsGlobal(const Flag& flag);

// The exit codes that all verbs use, for the help and the man page.
struct ExitCode {
  int code;
  std::string_view meaning;
};
std::span<const ExitCode> AllExitCodes();

}  // namespace holdfast::cli
