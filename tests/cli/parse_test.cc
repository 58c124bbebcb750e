#include "cli/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/args.h"
#include "cli/flags.h"
#include "cli/select.h"
#include "holdfast/tools/glob.h"
#include "tests/cli/run_words.h"

namespace holdfast::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Returns the arguments of a command line whose values are checked, too.
Result<Args> Parsed(const std::vector<std::string>& words) {
  const auto parsed = ParseWords(words);
  if (!parsed.ok()) return parsed.status();
  Args args;
  const Status filled = parsed->Fill(&args);
  if (!filled.ok()) return filled;
  return args;
}

TEST(ParseWords, TakesGnuSpellings) {
  const auto args = Parsed({"verify", "--memory=512M", "--threads", "3", "-q",
                            "/ckpt", "--step=7", "--no-verify"});
  ASSERT_TRUE(args.ok()) << args.status().message();
  EXPECT_EQ(args->verb, FindVerb("verify"));
  EXPECT_THAT(args->operands, ElementsAre("/ckpt"));
  EXPECT_EQ(args->run.memory_bytes, uint64_t{512} << 20);
  EXPECT_EQ(args->run.threads, 3);
  EXPECT_EQ(args->open.step, 7);
  EXPECT_TRUE(args->quiet);
  EXPECT_FALSE(args->open.verify);
}

TEST(ParseWords, TakesAttachedAndBundledShortFlags) {
  EXPECT_EQ(Parsed({"verify", "-j4", "/c"})->run.threads, 4);
  EXPECT_EQ(Parsed({"verify", "-j", "4", "/c"})->run.threads, 4);
  const auto words = ParseWords({"ls", "-lq", "/c"});
  ASSERT_TRUE(words.ok());
  EXPECT_TRUE(words->Has("long") && words->Has("quiet"));
}

TEST(ParseWords, EndsFlagsAtTwoDashes) {
  const auto args = Parsed({"ls", "--", "--json", "-l", "--"});
  ASSERT_TRUE(args.ok());
  EXPECT_FALSE(args->json);
  EXPECT_THAT(args->operands, ElementsAre("--json", "-l", "--"));
}

TEST(ParseWords, TakesFlagsBeforeTheVerb) {
  const auto args = Parsed({"--json", "ls", "/c", "-"});
  ASSERT_TRUE(args.ok());
  EXPECT_TRUE(args->json);
  EXPECT_THAT(args->operands, ElementsAre("/c", "-"));
}

struct BadLine {
  std::vector<std::string> words;
  std::string message;
};

TEST(ParseWords, SaysWhatIsWrong) {
  const BadLine cases[] = {
      {{"--json"}, "no verb given"},
      {{"lss", "/c"}, "unknown verb 'lss' (did you mean ls?)"},
      {{"vreify", "/c"}, "did you mean verify?"},
      {{"frobnicate"}, "unknown verb 'frobnicate'"},
      {{"ls", "--jsn", "/c"}, "unknown option '--jsn' (did you mean --json?)"},
      {{"ls", "--lnog", "/c"}, "did you mean --long?"},
      {{"ls", "-x", "/c"}, "unknown option '-x'"},
      {{"ls", "--npy", "/c"}, "--npy is not an option of 'ls'"},
      {{"ls", "--json=1", "/c"}, "--json does not take a value"},
      {{"ls", "/c", "--sort"}, "--sort needs a value (KEY)"},
      {{"ls", "/c", "--sort", "date"}, "want name, size, mean"},
      {{"ls", "--step", "-1", "/c"}, "--step: got '-1', want a step number"},
      {{"verify", "--threads=x", "/c"}, "--threads: got 'x'"},
      {{"verify", "--memory", "lots", "/c"}, "--memory: got 'lots'"},
      {{"ls", "--color=red", "/c"}, "auto, always or never"},
      {{"cat", "--missing=skip", "/c"}, "fill or refuse"},
      {{"tree", "--depth", "0", "/c"}, "--depth: got '0'"},
      {{"ls", "--item=", "/c"}, "--item: got ''"},
      {{"ls"}, "missing operand: want holdfast ls PATH [PATTERN...]"},
      {{"info", "/a", "/b"}, "unexpected operand '/b'"},
  };
  for (const BadLine& bad : cases) {
    const auto ran = testing::RunWords(bad.words);
    EXPECT_EQ(ran.code, 2);
    EXPECT_THAT(ran.err, HasSubstr(bad.message));
  }
}

TEST(ParseWords, AsksNoOperandsOfHelp) {
  EXPECT_TRUE(ParseWords({"ls", "--help"})->Has("help"));
  EXPECT_TRUE(ParseWords({"--version"})->Has("version"));
}

TEST(FlagTable, IsConsistent) {
  for (const Flag& flag : AllFlags()) {
    EXPECT_EQ(FindFlag(flag.name), &flag);
    if (!flag.short_name.empty()) {
      EXPECT_EQ(FindShortFlag(flag.short_name[0]), &flag);
    }
    EXPECT_EQ(flag.type == "bool", !flag.takes_value()) << flag.name;
    EXPECT_EQ(flag.type == "choice", !flag.choices.empty()) << flag.name;
    EXPECT_FALSE(flag.help.ends_with('.')) << flag.name;
    EXPECT_TRUE(FindPair(OptionGroups(), flag.group)) << flag.name;
    for (const LinePair& own : Pairs(flag.help_by_verb)) {
      const Verb* verb = FindVerb(own.first);
      ASSERT_NE(verb, nullptr) << flag.name << ": " << own.first;
      EXPECT_TRUE(Applies(flag, *verb)) << flag.name << ": " << own.first;
    }
  }
  for (const Verb& verb : AllVerbs()) {
    EXPECT_FALSE(Pairs(verb.examples).empty()) << verb.name;
    if (verb.group.empty()) continue;
    EXPECT_TRUE(FindPair(VerbGroups(), verb.group)) << verb.name;
  }
}

// Returns a command line of `verb` with one option.
std::vector<std::string> LineWith(const Verb& verb, const Flag& flag,
                                  const std::string& value) {
  std::vector<std::string> words = {std::string(verb.name)};
  words.resize(1 + std::stoul(std::string(Lines(verb.operand_count)[0])),
               "/nowhere");
  words.push_back("--" + std::string(flag.name));
  if (flag.takes_value()) words.push_back(value);
  return words;
}

// The next option is refused, so that no verb runs.
testing::Ran RunUpTo(std::vector<std::string> words) {
  words.push_back("--color=rubbish");
  return testing::RunWords(words);
}

TEST(FlagTable, EachVerbTakesItsOptions) {
  for (const Verb& verb : AllVerbs()) {
    for (const Flag& flag : AllFlags()) {
      if (!Applies(flag, verb) || IsGlobal(flag)) continue;
      const std::string value(flag.choices.empty() ? "1"
                                                   : Lines(flag.choices)[0]);
      const auto ran = RunUpTo(LineWith(verb, flag, value));
      EXPECT_EQ(ran.code, 2) << verb.name << ": " << ran.err;
    }
  }
}

TEST(FlagTable, ValuesOfOtherFormsAreRefused) {
  for (const Verb& verb : AllVerbs()) {
    for (const Flag& flag : AllFlags()) {
      const bool takes_any = flag.type == "text" || flag.type == "texts" ||
                             flag.type == "path" || flag.type == "bool";
      if (!Applies(flag, verb) || takes_any) continue;
      const auto ran = RunUpTo(LineWith(verb, flag, "rubbish"));
      EXPECT_THAT(ran.err,
                  HasSubstr("--" + std::string(flag.name) + ": got 'rubbish'"));
    }
  }
}

TEST(EditDistance, CountsSlips) {
  EXPECT_EQ(EditDistance("", "abc"), 3u);
  EXPECT_EQ(EditDistance("json", "json"), 0u);
  EXPECT_EQ(EditDistance("jsno", "json"), 1u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
}

TEST(GlobMatches, KnowsStarsAndSets) {
  EXPECT_TRUE(GlobMatches("*", ""));
  EXPECT_TRUE(GlobMatches("params.*", "params.a.b"));
  EXPECT_TRUE(GlobMatches("*.w", "a.b.w"));
  EXPECT_TRUE(GlobMatches("*a*b*", "xaxxbx"));
  EXPECT_FALSE(GlobMatches("*a*b", "xaxxbx"));
  EXPECT_TRUE(GlobMatches("layer?", "layer1"));
  EXPECT_FALSE(GlobMatches("layer?", "layer12"));
  EXPECT_TRUE(GlobMatches("l[0-3]", "l2"));
  EXPECT_FALSE(GlobMatches("l[!0-3]", "l2"));
  EXPECT_TRUE(GlobMatches("l[!0-3]", "l7"));
  EXPECT_TRUE(GlobMatches("l[]]", "l]"));
  EXPECT_TRUE(GlobMatches("l[", "l["));
  EXPECT_TRUE(GlobMatches("a\\*", "a*"));
  EXPECT_FALSE(GlobMatches("a\\*", "ab"));
  EXPECT_FALSE(GlobMatches(std::string(60, '*') + "z", std::string(500, 'a')));
}

TEST(GlobSelects, TakesNamesAndWhatIsBelow) {
  EXPECT_TRUE(GlobSelects("params", "params"));
  EXPECT_TRUE(GlobSelects("params", "params.w"));
  EXPECT_FALSE(GlobSelects("params", "params2"));
  EXPECT_TRUE(GlobSelects("w[0]", "w[0]"));
}

}  // namespace
}  // namespace holdfast::cli
