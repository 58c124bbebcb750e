// Compares help, manual page, completions and doc/cli.md with the flag table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "cli/completion.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "tests/cli/run_words.h"

namespace holdfast::cli {
namespace {

using ::testing::HasSubstr;
using testing::RunWords;

std::string WriteTemp(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

bool HasProgram(const std::string& name) {
  return std::system(("command -v " + name + " >/dev/null 2>&1").c_str()) == 0;
}

std::string ReadFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(GeneralHelp, NamesEveryVerb) {
  const auto ran = RunWords({"--help"});
  EXPECT_EQ(ran.code, 0);
  for (const Verb& verb : AllVerbs()) {
    EXPECT_THAT(ran.out, HasSubstr("\n  " + std::string(verb.name) + " "));
    EXPECT_THAT(ran.out, HasSubstr(std::string(verb.summary)));
  }
  EXPECT_EQ(RunWords({"help"}).out, ran.out);
}

TEST(VerbHelp, HasItsFlagsAndExamplesAndNoOthers) {
  for (const Verb& verb : AllVerbs()) {
    const auto ran = RunWords({std::string(verb.name), "s3://b/x", "--help"});
    EXPECT_EQ(ran.code, 0);
    EXPECT_EQ(VerbHelp(verb, /*with_stores=*/true), ran.out);
    for (const Flag& flag : AllFlags()) {
      const std::string line = "\n  " + FlagSpelling(flag);
      const bool found = ran.out.find(line) != std::string::npos;
      EXPECT_EQ(found, Applies(flag, verb)) << verb.name << flag.name;
    }
    for (const auto& [command, meaning] : Pairs(verb.examples)) {
      EXPECT_THAT(ran.out, HasSubstr(std::string(command)));
    }
  }
}

// Returns where each text is, one after the other.
void ExpectInOrder(const std::string& text,
                   const std::vector<std::string>& parts) {
  size_t at = 0;
  for (const std::string& part : parts) {
    at = text.find(part, at);
    ASSERT_NE(at, std::string::npos) << part << "\n" << text;
  }
}

TEST(VerbHelp, HasItsOwnFlagsFirstAndOnlyNamesThoseOfStores) {
  const auto ran = RunWords({"help", "diff"});
  EXPECT_EQ(RunWords({"diff", "/a", "/b", "--help"}).out, ran.out);
  ExpectInOrder(ran.out, {"\nOptions:\n", "      --atol X", "\nLeaves:\n",
                          "      --map RULE", "\nWhat is read:\n", "\nWork:\n",
                          "\nOutput:\n", "\nObject stores:\n  --endpoint,",
                          "(holdfast help stores)"});
  EXPECT_EQ(ran.out.find("--endpoint URL"), std::string::npos);
}

TEST(VerbHelp, SaysWhatAFlagDoesForThisVerb) {
  EXPECT_THAT(RunWords({"help", "diff"}).out, HasSubstr("Rename A's leaves."));
  EXPECT_THAT(RunWords({"help", "view"}).out,
              HasSubstr("Take the leaves that a recipe"));
  EXPECT_THAT(RunWords({"man"}).out, HasSubstr("diff: Rename A\\(aqs leaves."));
}

TEST(GroupHelp, HasTheFlagsOfTheGroup) {
  const auto ran = RunWords({"help", "stores"});
  EXPECT_EQ(ran.code, 0);
  for (const Flag& flag : AllFlags()) {
    const bool found = ran.out.find(FlagSpelling(flag)) != std::string::npos;
    EXPECT_EQ(found, flag.group == "stores") << flag.name;
  }
  EXPECT_EQ(RunWords({"help", "compare"}).code, 2);  // only a verb has them
}

TEST(Overview, IsOneScreenWithEveryVerbForPeople) {
  const auto ran = RunWords({});
  EXPECT_EQ(ran.code, 2);
  EXPECT_LE(std::count(ran.err.begin(), ran.err.end(), '\n'), 40);
  for (const Verb& verb : AllVerbs()) {
    const std::string line = "\n  " + std::string(verb.name) + " ";
    const bool found = ran.err.find(line) != std::string::npos;
    EXPECT_EQ(found, !verb.group.empty()) << verb.name;
  }
}

TEST(VerbHelp, KeepsLinesShort) {
  for (const Verb& verb : AllVerbs()) {
    std::istringstream lines(VerbHelp(verb));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 80u) << line;
      EXPECT_FALSE(line.ends_with(' ')) << line;
    }
  }
}

std::string RoffEscaped(std::string_view name) {
  std::string escaped;
  for (const char c : name) escaped += c == '-' ? "\\-" : std::string(1, c);
  return escaped;
}

std::string RoffName(std::string_view flag) {
  return "\\fB\\-\\-" + RoffEscaped(flag) + "\\fR";
}

TEST(ManPage, HasEveryFlagAndVerb) {
  const auto ran = RunWords({"man"});
  EXPECT_EQ(ran.code, 0);
  for (const Flag& flag : AllFlags()) {
    EXPECT_THAT(ran.out, HasSubstr(RoffName(flag.name)));
  }
  for (const Verb& verb : AllVerbs()) {
    EXPECT_THAT(ran.out, HasSubstr(".SS \"holdfast " + RoffEscaped(verb.name)));
  }
}

TEST(ManPage, PassesGroff) {
  if (!HasProgram("groff")) GTEST_SKIP() << "no groff";
  const std::string page = WriteTemp("holdfast.1", ManPage());
  const std::string complaints = ::testing::TempDir() + "/groff.txt";
  const std::string command =
      "groff -man -Tutf8 -ww -z " + page + " 2>" + complaints;
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(ReadFile(complaints), "");
}

TEST(Completion, HasEveryFlagAndVerbInEveryShell) {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const auto ran = RunWords({"completion", shell});
    EXPECT_EQ(ran.code, 0);
    for (const Flag& flag : AllFlags()) {
      const std::string spelled = shell == "fish" ? "-l " : "--";
      EXPECT_THAT(ran.out, HasSubstr(spelled + std::string(flag.name)));
    }
    for (const Verb& verb : AllVerbs()) {
      EXPECT_THAT(ran.out, HasSubstr(std::string(verb.name)));
    }
    EXPECT_THAT(ran.out, HasSubstr("auto always never"));
  }
}

TEST(Completion, IsSyntaxTheShellAccepts) {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    if (!HasProgram(shell)) continue;
    const std::string path =
        WriteTemp("holdfast." + shell, *CompletionScript(shell));
    EXPECT_EQ(std::system((shell + " -n " + path).c_str()), 0) << shell;
  }
}

// Runs bash's completion script and returns what it offers for `words`.
std::string BashCompletes(const std::vector<std::string>& words) {
  const std::string script = WriteTemp("ask.bash", *CompletionScript("bash"));
  std::string list;
  for (const std::string& word : words) list += " '" + word + "'";
  const std::string answer = ::testing::TempDir() + "/answer.txt";
  const std::string ask = WriteTemp(
      "ask.sh", "source " + script + "\nCOMP_WORDS=(" + list +
                    ")\nCOMP_CWORD=" + std::to_string(words.size() - 1) +
                    "\n_holdfast\necho \"${COMPREPLY[@]}\" >" + answer + "\n");
  EXPECT_EQ(std::system(("bash " + ask).c_str()), 0);
  return ReadFile(answer);
}

TEST(Completion, CompletesInBash) {
  if (!HasProgram("bash")) GTEST_SKIP() << "no bash";
  EXPECT_EQ(BashCompletes({"holdfast", "ver"}), "verify\n");
  EXPECT_EQ(BashCompletes({"holdfast", "ls", "--lo"}), "--long\n");
  EXPECT_EQ(BashCompletes({"holdfast", "info", "--lo"}), "\n");
  EXPECT_EQ(BashCompletes({"holdfast", "ls", "--sort", "n"}), "name\n");
  EXPECT_EQ(BashCompletes({"holdfast", "completion", "z"}), "zsh\n");
  EXPECT_EQ(BashCompletes({"holdfast", "--json", "cat", "--np"}), "--npy\n");
}

// The shell must not interpret a leaf's name, either when Tab offers it or when
// the user accepts it.
TEST(Completion, ANameRunsNothingInBash) {
  if (!HasProgram("bash")) GTEST_SKIP() << "no bash";
  const std::string script = WriteTemp("names.bash", *CompletionScript("bash"));
  const std::string mark = ::testing::TempDir() + "/ran.txt";
  std::remove(mark.c_str());
  const std::string name = "$(touch${IFS}" + mark + ")";
  for (const std::string words :
       {"holdfast ls /run ''", "holdfast ls --step ''", "holdfast ls /run '$'",
        "holdfast ls /run --step ''"}) {
    const std::string ask =
        WriteTemp("names.sh", "source " + script + "\nholdfast() { echo '" +
                                  name + "'; }\nCOMP_WORDS=(" + words +
                                  ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
                                  "_holdfast\nset -- \"${COMPREPLY[@]}\"\n"
                                  "eval \"set -- $1\"\n"
                                  "test -z \"$1\" || test \"$1\" = '" +
                                  name + "'\n");
    EXPECT_EQ(std::system(("bash " + ask).c_str()), 0) << words;
    EXPECT_FALSE(std::ifstream(mark).good()) << words;
  }
}

TEST(Completion, RefusesOtherShells) {
  const auto ran = RunWords({"completion", "tcsh"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.err,
            "holdfast: unknown shell 'tcsh' (want bash, zsh or fish)\n");
}

TEST(Documentation, HasEveryFlagAndVerb) {
  const std::string page = ReadFile(HOLDFAST_SOURCE_DIR "/doc/cli.md");
  for (const Flag& flag : AllFlags()) {
    EXPECT_THAT(page, HasSubstr("--" + std::string(flag.name)));
  }
  for (const Verb& verb : AllVerbs()) {
    EXPECT_THAT(page, HasSubstr("holdfast " + std::string(verb.name)));
  }
}

}  // namespace
}  // namespace holdfast::cli
