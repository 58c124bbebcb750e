// The tables of flags and verbs. Parsing, --help, the man page and the shell
// completions use nothing else.
//
// Thread-safety: constant tables, pure functions.
// Ownership: all text is static.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "cli/args.h"
#include "holdfast/status.h"

namespace holdfast::cli {

// The kind of values that a shell should suggest.
enum class Completion : uint8_t { kNothing, kFile, kChoices };

struct Flag {
  std::string_view name;           // without "--"
  char short_name;                 // 0: none
  std::string_view value_name;     // empty: a switch
  std::string_view help;           // one sentence, no final period
  uint32_t verbs;                  // bit 1 << VerbId
  std::string_view default_value;  // as shown; empty: nothing to show
  Completion completion;
  std::string_view choices;  // "auto|always|never" for kChoices
  // Stores the value, or returns InvalidArgument that says what is expected.
  Status (*apply)(std::string_view value, Args* args);

  bool takes_value() const { return !value_name.empty(); }
};

struct Example {
  std::string_view command;
  std::string_view meaning;
};

struct Verb {
  VerbId id;
  std::string_view name;
  std::string_view operands;  // "PATH [PATTERN...]"
  size_t operand_count_min;
  size_t operand_count_max;
  std::string_view summary;      // one line, no final period
  std::string_view description;  // a few sentences
  std::span<const Example> examples;
  Completion completion;  // of the operands
  std::string_view choices;
  bool hidden;  // documented, but not listed among the verbs of --help
};

std::span<const Flag> AllFlags();
std::span<const Verb> AllVerbs();

const Verb& VerbOf(VerbId id);
// Returns null if no verb has this name.
const Verb* FindVerb(std::string_view name);
const Flag* FindFlag(std::string_view name);
const Flag* FindShortFlag(char name);

bool Applies(const Flag& flag, VerbId verb);
// Returns true for --help and --version, which are also valid without a verb.
bool IsGlobal(const Flag& flag);

// The exit codes that all verbs use, for the help and the man page.
struct ExitCode {
  int code;
  std::string_view meaning;
};
std::span<const ExitCode> AllExitCodes();

}  // namespace holdfast::cli
