// prove-crash over the fake library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/failures.h"
#include "tests/cli/run_words.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;

TEST(ProveCrashVerb, SaysWhatAPowerLossCouldCost) {
  const auto ran = RunWords({"prove-crash", "--", "/bin/save", "--fast"});
  EXPECT_EQ(ran.code, cli::kExitDamaged);
  EXPECT_EQ(
      ran.out,
      "PROGRAM  A POWER LOSS LEAVES IT  THE SYNC THAT IS MISSING"
      "                                            STATES\n"
      "save     listed, and unreadable  file STEP/_METADATA (comes too late) "
      "and directory . (never comes)      12\n"
      "\n"
      "save: 40 changes, 6 of them syncs; 12 of 300 states are bad (a sample "
      "of 600); 0.00 s\n"
      "  e.g. after 17 of 40 changes: rename of 1.tmp to 1, data lost: 1: "
      "DATA_LOSS: _METADATA: it is empty\n");
}

TEST(ProveCrashVerb, PutsLibrariesSideBySide) {
  const auto ran = RunWords(
      {"prove-crash", "--library", "orbax", "--library", "sound", "--json"});
  EXPECT_EQ(ran.code, cli::kExitDamaged);
  const auto json = nlohmann::json::parse(ran.out);
  ASSERT_EQ(json["programs"].size(), 2u);
  EXPECT_EQ(json["programs"][0]["program"], "orbax");
  EXPECT_EQ(json["programs"][0]["bad_state_count"], 12);
  const auto& risk = json["programs"][0]["risks"][0];
  EXPECT_EQ(risk["problem"], "damaged");
  EXPECT_EQ(risk["missing"][0]["path"], "STEP/_METADATA");
  EXPECT_EQ(risk["missing"][0]["comes_later"], true);
  EXPECT_EQ(risk["missing"][1]["is_directory"], true);
  EXPECT_TRUE(json["programs"][1]["risks"].empty());
}

TEST(ProveCrashVerb, IsFineWhereNothingIsLost) {
  const auto ran = RunWords({"prove-crash", "--library", "sound", "--quiet"});
  EXPECT_EQ(ran.code, cli::kExitFine);
  EXPECT_THAT(ran.out, HasSubstr("as it was saved"));
}

TEST(ProveCrashVerb, WantsOneKindOfProgram) {
  EXPECT_EQ(RunWords({"prove-crash"}).code, cli::kExitUsage);
  EXPECT_EQ(RunWords({"prove-crash", "--library", "sound", "--", "true"}).code,
            cli::kExitUsage);
  EXPECT_EQ(RunWords({"prove-crash", "--library", "rubbish"}).code,
            cli::kExitUsage);
  EXPECT_EQ(RunWords({"prove-crash", "--check", "true", "--", "x"}).code,
            cli::kExitUsage);
}

TEST(ProveCrashVerb, AFailedRunIsNoDamage) {
  const auto ran = RunWords({"prove-crash", "--", "fails"});
  EXPECT_EQ(ran.code, cli::kExitFailure);
  EXPECT_THAT(ran.err, HasSubstr("fails: the command ended with 1"));
}

}  // namespace
}  // namespace holdfast::testing
