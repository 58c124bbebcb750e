// goodput over the fake library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/failures.h"
#include "tests/cli/run_words.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;

TEST(GoodputVerb, PlaysThePolicyThatIsGiven) {
  const auto ran =
      RunWords({"goodput", "--lost-share", "0.75", "--save-every", "20",
                "--data-shards=14", "--parity-shards=2", "--state", "512G"});
  EXPECT_EQ(ran.code, cli::kExitFine) << ran.err;
  EXPECT_EQ(
      ran.out,
      "GOODPUT  LOCAL EVERY  SHARED EVERY  PARITY  BYTES A HOST  SAVES  "
      "DONE AGAIN  RESTARTS  RESTORES\n"
      " 75.00%           20          1000  14 + 2       2.0 GiB  0.00%      "
      "12.50%     0.00%     0.00%\n"
      "\n"
      "7 failures in 2160 h 0 min: 0 restored from the hosts, 3 with parity, 0 "
      "from the shared tier, 0 from nothing\n"
      "a host receives 0 B a step for parity\n");
}

TEST(GoodputVerb, LooksForPlansWithinABudget) {
  const auto ran =
      RunWords({"goodput", "--budget", "4K", "--state", "1K", "--json"});
  EXPECT_EQ(ran.code, cli::kExitFine) << ran.err;
  const auto plans = nlohmann::json::parse(ran.out)["plans"];
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[0]["goodput"], 0.25);
  EXPECT_EQ(plans[0]["data_shards"], 14);
  EXPECT_EQ(plans[1]["local_every"], 10);
}

TEST(GoodputVerb, SaysWhatIsWrong) {
  const auto none = RunWords({"goodput", "--budget", "1K"});
  EXPECT_EQ(none.code, cli::kExitUsage);
  EXPECT_THAT(none.err, HasSubstr("no plan"));
  EXPECT_EQ(RunWords({"goodput", "--parity-shards", "10"}).code,
            cli::kExitUsage);
  const struct {
    const char* option;
    const char* value;
  } wrong[] = {
      {"--lost-share", "2"}, {"--mtbf", "soon"},   {"--hosts", "0"},
      {"--hosts", "65537"},  {"--state", "x"},     {"--save-every", "-1"},
      {"--budget", "much"},  {"--duration", "0s"}, {"--domain-hosts", "0"}};
  for (const auto& [option, value] : wrong) {
    const auto ran = RunWords({"goodput", option, value});
    EXPECT_EQ(ran.code, cli::kExitUsage) << option;
    EXPECT_THAT(ran.err, HasSubstr(std::string(option) + ": ")) << option;
    EXPECT_THAT(ran.err, HasSubstr("'" + std::string(value) + "'")) << option;
  }
  EXPECT_EQ(RunWords({"goodput", "/none/at/all"}).code, cli::kExitFailure);
}

}  // namespace
}  // namespace holdfast::testing
