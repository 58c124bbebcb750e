// Addresses of steps: how ResolveStepAddress and all readers resolve them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/steps/steps_test_util.h"
#include "holdfast/holdfast.h"
#include "holdfast/steps/steps.h"
#include "twins/mem_bucket.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Returns noon of 2026-11-01 plus `day` days.
constexpr int64_t kDaySecondsOfRun = 24 * 60 * 60;
constexpr int64_t NoonNs(int64_t day) {
  return (1'793'534'400 + day * kDaySecondsOfRun) * 1'000'000'000;
}

class StepSourceTest : public testing::Test {
 protected:
  void SetUp() override {
    PutStep(run_, "100", NoonNs(0), R"({"loss": 3, "acc": {"top@1": 0.5}})");
    PutStep(run_, "200", NoonNs(1), R"({"loss": 1, "acc": {"top@1": 0.9}})");
    PutStep(run_, "300", NoonNs(2), R"({"loss": 1, "acc": {"top@1": 0.7}})");
    PutStep(run_, "400", NoonNs(3), R"({"loss": NaN})");
  }
  // Returns the path relative to the root, or the error.
  std::string Found(const std::string& address) const {
    const auto path = ResolveStepAddress(run_ + address);
    if (!path.ok()) return path.status().ToString();
    return fs::path(*path).lexically_relative(run_).string();
  }

  const ScratchDirectory scratch_;
  const std::string run_ = scratch_ / "run";
};

TEST_F(StepSourceTest, AStepIsFoundByNumberTimeAndMetric) {
  EXPECT_EQ(Found("@step=200"), "200");
  EXPECT_EQ(Found("/@step=200"), "200");
  EXPECT_EQ(Found("@latest"), "400");
  EXPECT_EQ(Found("@0s ago"), "400");
  EXPECT_EQ(Found("@2026-11-02"), "100");
  EXPECT_EQ(Found("@2026-11-02T11:59"), "100");
  EXPECT_EQ(Found("@2026-11-02T12:00"), "200");
  EXPECT_EQ(Found("@best:loss"), "300");  // of equal values, the newest
  EXPECT_EQ(Found("@best:max:loss"), "100");
  EXPECT_EQ(Found("@best:max:acc.top@1"), "200");
}

TEST_F(StepSourceTest, ErrorsSayWhatThereIs) {
  EXPECT_EQ(Found("@step=230"),
            "NOT_FOUND: no step \"@step=230\" of " + run_ +
                ": the nearest is 200 and 300, of 4 from 100 to 400");
  EXPECT_THAT(Found("@step=1"), HasSubstr("nearest is 100, of 4"));
  EXPECT_THAT(Found("@step=9000"), HasSubstr("nearest is 400, of 4"));
  EXPECT_EQ(Found("@2026-10-31"),
            "NOT_FOUND: no step \"@2026-10-31\" of " + run_ +
                ": none was committed by 2026-10-31T00:00:00Z; the oldest, "
                "step 100, was at 2026-11-01T12:00:00Z");
  EXPECT_EQ(Found("@best:los"),
            "NOT_FOUND: no step \"@best:los\" of " + run_ +
                ": no step has a metric of this name; there are acc.top@1, "
                "loss");
  const std::string unknown = Found("@yesterday");
  EXPECT_THAT(unknown, HasSubstr("INVALID_ARGUMENT: open "));
  EXPECT_THAT(unknown, HasSubstr("known are @step=N, @latest"));
  EXPECT_THAT(Found("x@latest"), HasSubstr("NOT_FOUND"));
  EXPECT_EQ(Found("x@yesterday"), "../runx@yesterday");  // Open says the rest
}

TEST_F(StepSourceTest, StepsWithoutMetricsOrNumbersAreNoBest) {
  const std::string other = scratch_ / "other";
  PutStep(other, "1", NoonNs(0));
  EXPECT_THAT(ResolveStepAddress(other + "@best:loss").status().ToString(),
              HasSubstr("no step has metrics"));
  PutStep(other, "2", NoonNs(0), R"({"loss": NaN})");
  EXPECT_THAT(ResolveStepAddress(other + "@best:loss").status().ToString(),
              HasSubstr("loss is not a number in any step"));
}

TEST_F(StepSourceTest, ACheckpointIsNoRoot) {
  for (const char* address : {"/200@latest", "/200@step=3", "/200@best:loss"}) {
    EXPECT_THAT(Found(address), HasSubstr("INVALID_ARGUMENT: \"@")) << address;
  }
}

TEST_F(StepSourceTest, WhatIsThereByThisNameWins) {
  PutStep(scratch_.path(), "run@latest", NoonNs(9));
  EXPECT_EQ(Found("@latest"), "../run@latest");
  EXPECT_EQ(Found("@step=100"), "100");
}

TEST_F(StepSourceTest, ADamagedLatestStepIsAnError) {
  fs::remove_all(run_ + "/400/default");
  EXPECT_THAT(Found("@latest"), HasSubstr("DATA_LOSS: step 400 of"));
  EXPECT_THAT(Found("@latest"), HasSubstr("newest step that is whole is 300"));
}

TEST_F(StepSourceTest, ReadersTakeAddressesAndWritersRefuseThem) {
  const std::string steps = scratch_ / "steps";
  for (const int64_t step : {1, 2}) {
    ASSERT_TRUE(
        Save(steps + "/" + std::to_string(step), Tree::Dict({{"s", step}}))
            .ok());
  }
  const auto opened = Open(steps + "@step=1");
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  EXPECT_EQ((*opened)->info().step, 1);
  const auto loaded = Load(steps + "@latest");
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  const auto verified = Verify(steps + "@step=2");
  ASSERT_TRUE(verified.ok()) << verified.status().ToString();
  EXPECT_EQ(verified->leaf_count, 1u);
  EXPECT_FALSE(IsRootOfSteps(steps + "@latest"));
  EXPECT_EQ(Open(steps + "@step=3").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Open(steps + "@step=1", {.step = 2}).status().code(),
            StatusCode::kInvalidArgument);

  const Status saved =
      Save(steps + "@step=3", Tree::Dict({{"s", int64_t{3}}})).status();
  EXPECT_EQ(saved.code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(fs::exists(steps + "@step=3"));
}

TEST_F(StepSourceTest, BucketsHaveAddressesToo) {
  MemBucketForTest mem;
  for (const int64_t step : {1, 2}) {
    ASSERT_TRUE(Save("mem://test/run/" + std::to_string(step),
                     Tree::Dict({{"s", step}}))
                    .ok());
  }
  for (const char* address : {"@step=2", "@latest", "@0s ago"}) {
    const auto found =
        ResolveStepAddress("mem://test/run" + std::string(address));
    ASSERT_TRUE(found.ok()) << found.status().ToString();
    EXPECT_EQ(*found, "mem://test/run/2");
  }
  const auto opened = Open("mem://test/run@step=1");
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  EXPECT_EQ((*opened)->info().step, 1);
}

}  // namespace
}  // namespace holdfast
