#include "cli/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "cli/flags.h"
#include "cli/select.h"
#include "holdfast/tools/glob.h"

namespace holdfast::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseArgs, TakesGnuSpellings) {
  const auto args = ParseArgs({"verify", "--ram=512M", "--threads", "3", "-q",
                               "/ckpt", "--step=7", "--no-verify"});
  ASSERT_TRUE(args.ok()) << args.status().message();
  EXPECT_EQ(args->verb, VerbId::kVerify);
  EXPECT_THAT(args->operands, ElementsAre("/ckpt"));
  EXPECT_EQ(args->ram_bytes_max, uint64_t{512} << 20);
  EXPECT_EQ(args->threads, 3);
  EXPECT_EQ(args->step, 7);
  EXPECT_TRUE(args->quiet);
  EXPECT_FALSE(args->verify);
}

TEST(ParseArgs, TakesAttachedAndBundledShortFlags) {
  EXPECT_EQ(ParseArgs({"verify", "-j4", "/c"})->threads, 4);
  EXPECT_EQ(ParseArgs({"verify", "-j", "4", "/c"})->threads, 4);
  const auto args = ParseArgs({"ls", "-lq", "/c"});
  ASSERT_TRUE(args.ok());
  EXPECT_TRUE(args->long_listing && args->quiet);
}

TEST(ParseArgs, EndsFlagsAtTwoDashes) {
  const auto args = ParseArgs({"ls", "--", "--json", "-l", "--"});
  ASSERT_TRUE(args.ok());
  EXPECT_FALSE(args->json);
  EXPECT_THAT(args->operands, ElementsAre("--json", "-l", "--"));
}

TEST(ParseArgs, TakesFlagsBeforeTheVerb) {
  const auto args = ParseArgs({"--json", "ls", "/c", "-"});
  ASSERT_TRUE(args.ok());
  EXPECT_TRUE(args->json);
  EXPECT_THAT(args->operands, ElementsAre("/c", "-"));
}

struct BadLine {
  std::vector<std::string> words;
  std::string message;
};

TEST(ParseArgs, SaysWhatIsWrong) {
  const BadLine cases[] = {
      {{}, "no verb given"},
      {{"lss", "/c"}, "unknown verb 'lss' (did you mean ls?)"},
      {{"vreify", "/c"}, "did you mean verify?"},
      {{"frobnicate"}, "unknown verb 'frobnicate'"},
      {{"ls", "--jsn", "/c"}, "unknown option '--jsn' (did you mean --json?)"},
      {{"ls", "--lnog", "/c"}, "did you mean --long?"},
      {{"ls", "-x", "/c"}, "unknown option '-x'"},
      {{"ls", "--npy", "/c"}, "--npy is not an option of 'ls'"},
      {{"ls", "--json=1", "/c"}, "--json does not take a value"},
      {{"ls", "/c", "--sort"}, "--sort needs a value (KEY)"},
      {{"ls", "/c", "--sort", "date"}, "want name or size"},
      {{"ls", "--step", "-1", "/c"}, "--step: got '-1', want a step number"},
      {{"verify", "--threads=x", "/c"}, "--threads: got 'x'"},
      {{"verify", "--ram", "lots", "/c"}, "--ram: got 'lots'"},
      {{"ls", "--color=red", "/c"}, "auto, always or never"},
      {{"cat", "--missing=skip", "/c"}, "fill or refuse"},
      {{"tree", "--depth", "0", "/c"}, "--depth: got '0'"},
      {{"ls", "--item=", "/c"}, "--item: got ''"},
      {{"ls"}, "missing operand: want holdfast ls PATH [PATTERN...]"},
      {{"info", "/a", "/b"}, "unexpected operand '/b'"},
  };
  for (const BadLine& bad : cases) {
    const auto args = ParseArgs(bad.words);
    EXPECT_EQ(args.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(args.status().message()), HasSubstr(bad.message));
  }
}

TEST(ParseArgs, AsksNoOperandsOfHelp) {
  EXPECT_TRUE(ParseArgs({"ls", "--help"})->help);
  EXPECT_TRUE(ParseArgs({"--version"})->version);
}

TEST(FlagTable, IsConsistent) {
  for (const Flag& flag : AllFlags()) {
    EXPECT_EQ(FindFlag(flag.name), &flag);
    if (flag.short_name != 0) {
      EXPECT_EQ(FindShortFlag(flag.short_name), &flag);
    }
    EXPECT_NE(flag.verbs, 0u) << flag.name;
    EXPECT_EQ(flag.completion == Completion::kChoices, !flag.choices.empty());
    EXPECT_FALSE(flag.help.ends_with('.')) << flag.name;
    Args args;
    if (!flag.takes_value()) {
      EXPECT_TRUE(flag.apply("", &args).ok());
      continue;
    }
    // Flags with values reject garbage, except those that accept any word.
    const std::set<std::string_view> names = {
        "item",         "metric", "map-file", "select",  "drop",
        "map",          "report", "region",   "profile", "user-project",
        "ca-bundle",    "output", "against",  "host",    "token",
        "cache",        "trace",  "bad-if",   "root",    "python",
        "without-sync", "fill"};
    if (!names.contains(flag.name)) {
      const char* rubbish = flag.name == "spec" ? "rub+,bish" : "rubbish";
      EXPECT_EQ(flag.apply(rubbish, &args).code(), StatusCode::kInvalidArgument)
          << flag.name;
    }
  }
  for (const Verb& verb : AllVerbs()) {
    EXPECT_EQ(&VerbOf(verb.id), &verb);
    EXPECT_FALSE(verb.examples.empty()) << verb.name;
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
