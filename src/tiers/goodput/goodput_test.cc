#include "holdfast/tiers/goodput.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast {
namespace {

using ::testing::HasSubstr;

// Returns a run with two thirds of a failure per hour.
GoodputModel SomeRun() {
  GoodputModel model;
  model.local_bytes_per_second = 2e9;
  model.peer_bytes_per_second = 5e9;
  model.shared_bytes_per_second = 2e10;
  model.host_count = 1024;
  model.host_mtbf_seconds = 1024 * 5400.0;
  model.state_bytes = 4e12;
  model.restart_seconds = 240;
  model.simulated_seconds = 400 * 86400.0;
  return model;
}
constexpr GoodputPolicy kPolicy{10, 1000, 7, 1};

double SumOf(const GoodputResult& result) {
  return result.goodput + result.blocked_share + result.redone_share +
         result.restart_share + result.restore_share;
}

TEST(GoodputTest, EverySecondIsAccountedFor) {
  for (const GoodputPolicy& policy :
       {kPolicy, GoodputPolicy{1, 100, 2, 2}, GoodputPolicy{50, 50, 3, 0}}) {
    GoodputModel model = SomeRun();
    model.simulated_seconds /= 8;
    const auto result = SimulateGoodput(model, policy);
    ASSERT_TRUE(result.ok()) << result.status().ToString();
    EXPECT_NEAR(SumOf(*result), 1, 1e-6);
    EXPECT_GT(result->failure_count, 600u);
  }
}

// Compares two methods for the same number: one counts, the other calculates.
TEST(GoodputTest, TheSimulationAgreesWithTheFormula) {
  for (const double mtbf_seconds : {1800.0, 5400.0, 40'000.0}) {
    for (const int64_t local_every : {1, 10, 60}) {
      GoodputModel model = SomeRun();
      model.host_mtbf_seconds = 1024 * mtbf_seconds;
      // With uncovered failures, the result would be a matter of luck.
      const GoodputPolicy policy{local_every, 60, 7, 2};
      const auto simulated = SimulateGoodput(model, policy);
      const auto estimated = EstimateGoodput(model, policy);
      ASSERT_TRUE(simulated.ok() && estimated.ok());
      EXPECT_NEAR(simulated->goodput, estimated->goodput, 0.012)
          << mtbf_seconds << " " << local_every;
    }
  }
}

TEST(GoodputTest, WithoutFailuresOnlySavesTakeTime) {
  GoodputModel model = SomeRun();
  model.host_mtbf_seconds = 1e18;
  const auto result = SimulateGoodput(model, kPolicy);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->failure_count, 0u);
  // A save blocks for one second, every ten steps of ten seconds each.
  EXPECT_NEAR(result->goodput, 100.0 / 101, 1e-4);
}

TEST(GoodputTest, ALostDomainWantsAsMuchParityAsAGroupHasOfIt) {
  GoodputModel model = SomeRun();
  model.host_count = 16;
  model.hosts_per_domain = 4;
  model.lost_share = 0;
  model.host_mtbf_seconds = 1e12;
  model.state_bytes = 4e10;
  model.domain_mtbf_seconds = 200'000;
  // Each group of eight has two hosts of each domain.
  const auto two = SimulateGoodput(model, {10, 1000, 6, 2});
  const auto one = SimulateGoodput(model, {10, 1000, 7, 1});
  ASSERT_TRUE(two.ok() && one.ok());
  // A second domain may fail while the first is replaced.
  EXPECT_LT(two->shared_count, 20u);
  EXPECT_GT(two->parity_count, 500u);
  EXPECT_EQ(one->parity_count, 0u);
  EXPECT_GT(one->shared_count, 500u);
  EXPECT_GT(two->goodput, one->goodput + 0.05);
}

TEST(GoodputTest, WithoutASharedTierWhatIsNotCoveredBeginsAnew) {
  GoodputModel model = SomeRun();
  model.lost_share = 1;
  const auto result = SimulateGoodput(model, {10, 0, 7, 0});
  ASSERT_TRUE(result.ok());
  EXPECT_GT(result->nothing_count, 1000u);
  EXPECT_EQ(result->parity_count + result->shared_count, 0u);
  EXPECT_LT(result->goodput, 0.01);
}

TEST(GoodputTest, SixtyFiveThousandHostsArePlayedToo) {
  GoodputModel model;
  model.host_count = 65'536;
  model.state_bytes = 2e13;
  model.simulated_seconds = 10 * 86400.0;
  const auto result = SimulateGoodput(model, {5, 100, 14, 2});
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_GT(result->failure_count, 200u);
  EXPECT_EQ(result->nothing_count, 0u);
}

TEST(GoodputTest, PlansKeepToTheBudgetAndTheBestIsFirst) {
  const double part_bytes = 4e12 / 1024;
  GoodputModel model = SomeRun();
  model.simulated_seconds /= 20;
  const auto plans = PlanGoodput(model, 2.5 * part_bytes);
  ASSERT_TRUE(plans.ok()) << plans.status().ToString();
  ASSERT_EQ(plans->size(), 5u);
  for (size_t i = 0; i < plans->size(); ++i) {
    const GoodputPlan& plan = (*plans)[i];
    EXPECT_LE(plan.result.host_bytes, 2.5 * part_bytes);
    EXPECT_GE((*plans)[0].result.goodput, plan.result.goodput);
  }
  EXPECT_GE((*plans)[0].policy.parity_shards, 1);
  const auto none = PlanGoodput(model, part_bytes);
  EXPECT_EQ(none.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(none.status().message()),
              HasSubstr("two steps of its part of the state are 7812500000"));
}

// The call must return, whatever the numbers are. Simulating any of these
// models would take hours at least.
TEST(GoodputTest, WhatIsTooMuchToPlayIsRefused) {
  GoodputModel failing;
  failing.host_count = 10'000;
  failing.host_mtbf_seconds = 1;
  GoodputModel domains;
  domains.host_count = domains.hosts_per_domain = 65'536;
  domains.domain_mtbf_seconds = 100;
  GoodputModel lasting;
  lasting.simulated_seconds = 1e14;
  GoodputModel hasty;
  hasty.step_seconds = hasty.blocking_seconds = 1e-300;
  hasty.state_bytes = 1;
  // Each step waits for all copies before it, so more and more steps are kept.
  GoodputModel behind;
  behind.shared_bytes_per_second = 1;
  behind.host_mtbf_seconds = 1e18;
  for (const GoodputModel& model : {failing, domains, lasting, hasty, behind}) {
    const auto played = SimulateGoodput(model, {10, 10, 7, 1});
    EXPECT_EQ(played.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(played.status().message()),
                HasSubstr("simulated_seconds: too much to simulate"));
  }
  EXPECT_EQ(PlanGoodput(failing, 1e15).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(GoodputTest, NumbersThatCannotBeAreNamed) {
  const struct {
    const char* name;
    GoodputPolicy policy;
  } policies[] = {{"local_every", {0, 0, 7, 1}},
                  {"local_every", {int64_t{1} << 40, 0, 7, 1}},
                  {"shared_every", {1, -1, 7, 1}},
                  {"data_shards", {1, 1, int64_t{1} << 62, int64_t{1} << 62}},
                  {"parity_shards", {1, 1, 7, int64_t{1} << 62}}};
  for (const auto& [name, policy] : policies) {
    EXPECT_THAT(SimulateGoodput(SomeRun(), policy).status().ToString(),
                HasSubstr(std::string("goodput: ") + name + ": want"));
  }
  GoodputModel model = SomeRun();
  model.step_seconds = 0;
  EXPECT_THAT(SimulateGoodput(model, kPolicy).status().ToString(),
              HasSubstr("step_seconds"));
  EXPECT_THAT(SimulateGoodput(SomeRun(), {10, 15, 7, 1}).status().ToString(),
              HasSubstr("shared_every"));
  model = SomeRun();
  model.host_count = 100'000;
  EXPECT_EQ(EstimateGoodput(model, kPolicy).status().code(),
            StatusCode::kInvalidArgument);
  model.host_count = 2;
  EXPECT_EQ(SimulateGoodput(model, {10, 0, 7, 2}).status().code(),
            StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace holdfast
