#include "holdfast/tools/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <limits>

#include "holdfast/holdfast.h"
#include "holdfast/pending_save.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kHistorySecondNs = 1'000'000'000;
constexpr float kNanOfTest = std::numeric_limits<float>::quiet_NaN();

Array Floats(const std::vector<float>& values) {
  return Array::FromBytes(DType::kFloat32,
                          {static_cast<int64_t>(values.size())}, values.data());
}

class HistoryTest : public testing::Test {
 protected:
  // Saves a step. The save begins `step` seconds after 1970 and commits two
  // seconds later.
  void Put(int64_t step, const Tree& tree, const std::string& metrics = "") {
    PendingSaveOptions options;
    options.sync = false;
    int64_t seconds = step;
    options.now_ns = [&] {
      seconds += 2;
      return (seconds - 2) * kHistorySecondNs;
    };
    auto pending = PendingSave::Begin(PathOfStep(step), options);
    ASSERT_TRUE(pending.ok()) << pending.status().ToString();
    SaveOptions item;
    item.sync = false;
    ASSERT_TRUE((*pending)->SaveItem("state", tree, item).ok());
    if (!metrics.empty()) {
      ASSERT_TRUE((*pending)->WriteFile("metrics/metrics", metrics).ok());
    }
    ASSERT_TRUE((*pending)->Commit({}).ok());
  }
  // Saves steps 10, 20, ... From step `bad` on, `w` has a NaN and the loss is
  // 9.
  void PutRun(int64_t count, int64_t bad) {
    for (int64_t i = 1; i <= count; ++i) {
      const bool is_bad = i * 10 >= bad;
      Put(i * 10,
          Tree::Dict({{"w", Floats({is_bad ? kNanOfTest : 1, 2})},
                      {"big", Floats(std::vector<float>(1000, 3))}}),
          is_bad ? R"({"loss": 9})" : R"({"loss": 1})");
    }
  }
  std::string PathOfStep(int64_t step) const {
    return root_ + "/" + std::to_string(step);
  }
  // Returns the probed steps with their verdicts, in order: "30 bad; 10 good;
  // ".
  static std::string Verdicts(const BisectResult& found) {
    std::string text;
    for (const BisectProbe& probe : found.probes) {
      text += std::to_string(probe.step.step) + " " +
              std::string(StepVerdictName(probe.answer.verdict)) + "; ";
    }
    return text;
  }
  int64_t FirstBad(const std::string& bad_if) const {
    const auto found = Bisect(root_, bad_if);
    EXPECT_TRUE(found.ok()) << found.status().ToString();
    return found.ok() && found->first_bad ? found->first_bad->step : -1;
  }
  Status BisectError(const std::string& bad_if,
                     const BisectOptions& options = {}) const {
    return Bisect(root_, bad_if, options).status();
  }

  const ScratchDirectory scratch_;
  const std::string root_ = scratch_ / "run";
};

TEST_F(HistoryTest, ALogHasEveryStepNewestFirst) {
  Put(5, Tree::Dict({{"w", Floats({1})}}), R"({"loss": 3, "a": {"b": 1}})");
  Put(7, Tree::Dict({{"w", Floats({2})}}));
  Put(9, Tree::Dict({{"w", Floats({2})}}), R"({"loss": 1})");
  fs::remove_all(PathOfStep(7) + "/state");
  fs::create_directories(root_ + "/9.orbax-checkpoint-tmp-1");
  fs::create_directories(root_ + "/4");
  const auto log = ReadStepLog(root_);
  ASSERT_TRUE(log.ok()) << log.status().ToString();
  std::vector<std::string> names;
  for (const LogEntry& entry : log->entries) names.push_back(entry.step.name);
  EXPECT_THAT(names,
              ElementsAre("9.orbax-checkpoint-tmp-1", "9", "7", "5", "4"));
  EXPECT_THAT(log->entries[0].step.why_not, HasSubstr("temporary directory"));
  EXPECT_EQ(log->entries[1].metrics,
            (std::map<std::string, double>{{"loss", 1}}));
  EXPECT_EQ(log->entries[1].save_seconds, 2);
  EXPECT_EQ(log->entries[1].step.commit_timestamp_ns, 11 * kHistorySecondNs);
  EXPECT_THAT(log->entries[2].step.damage, HasSubstr("No structure"));
  EXPECT_EQ(log->entries[3].metrics,
            (std::map<std::string, double>{{"loss", 3}, {"a.b", 1}}));
  EXPECT_FALSE(log->entries[4].step.committed);
  EXPECT_TRUE(log->entries[4].moved_against.empty());
  for (size_t count = 1; count <= 6; ++count) {
    LogOptions options;
    options.step_count_max = count;
    const auto newest = ReadStepLog(root_, options);
    ASSERT_TRUE(newest.ok()) << newest.status().ToString();
    ASSERT_EQ(newest->entries.size(), std::min<size_t>(count, 5));
    for (size_t i = 0; i < newest->entries.size(); ++i) {
      EXPECT_EQ(newest->entries[i].step.name, names[i]);
    }
  }
}

TEST_F(HistoryTest, ALogOfTheNewestStepsSaysWhatMoved) {
  Put(1, Tree::Dict({{"a", Floats({4})}, {"b", Floats({1})}}));
  Put(2, Tree::Dict({{"a", Floats({5})}, {"b", Floats({1})}}));
  Put(3, Tree::Dict({{"a", Floats({5})}, {"b", Floats({3})}}));
  Put(4, Tree::Dict({{"a", Floats({10})}, {"b", Floats({12})}}));
  LogOptions options;
  options.step_count_max = 3;
  options.moved = true;
  options.moved_count_max = 1;
  options.cache = scratch_ / "cache";
  for (int round = 0; round < 2; ++round) {
    const auto log = ReadStepLog(root_, options);
    ASSERT_TRUE(log.ok()) << log.status().ToString();
    EXPECT_EQ(log->cache_warning, "");
    ASSERT_EQ(log->entries.size(), 3u);
    const LogEntry& newest = log->entries[0];
    EXPECT_EQ(newest.moved_against, "3");
    ASSERT_EQ(newest.moved.size(), 1u);
    EXPECT_EQ(newest.moved[0].name, "b");
    EXPECT_EQ(newest.moved[0].relative, 3);
    EXPECT_EQ(log->entries[1].moved[0].relative, 2);
    EXPECT_EQ(log->entries[2].moved_against, "1");
    EXPECT_EQ(log->entries[2].moved[0].name, "a");
    EXPECT_EQ(log->entries[2].moved[0].relative, 0.25);
  }
  EXPECT_TRUE(fs::exists(*options.cache));
}

TEST_F(HistoryTest, AStepThatCannotBeComparedSaysWhy) {
  for (const int64_t step : {1, 2, 3}) {
    Put(step, Tree::Dict({{"w", Floats({1})}}));
  }
  fs::remove_all(PathOfStep(2) + "/state");
  LogOptions options;
  options.moved = true;
  const auto log = ReadStepLog(root_, options);
  ASSERT_TRUE(log.ok()) << log.status().ToString();
  EXPECT_THAT(log->entries[0].moved_problem, HasSubstr("No structure"));
  EXPECT_THAT(log->entries[1].moved_problem, HasSubstr("No structure"));
  EXPECT_EQ(log->entries[2].moved_against, "");
}

TEST_F(HistoryTest, NoLogOfNothing) {
  EXPECT_EQ(ReadStepLog(root_).status().code(), StatusCode::kNotFound);
}

TEST_F(HistoryTest, EveryFunctionFindsTheFirstBadStep) {
  PutRun(12, 70);
  for (const char* bad_if :
       {"nan(state.w)", "nan(state.w) or inf(state.*)", "metric(loss) > 5",
        "not metric(loss) < 5", "nan(state.w) > 0 and inf(state.w) == 0"}) {
    EXPECT_EQ(FirstBad(bad_if), 70) << bad_if;
  }
  const std::string other = scratch_ / "other";
  for (int i = 1; i <= 4; ++i) {
    const float x = i < 3 ? 1 : -8;
    ASSERT_TRUE(Save(other + "/" + std::to_string(i),
                     Tree::Dict({{"a", Floats({x, 0})},
                                 {"b", Floats({i < 3 ? 2.0F : 0.0F})}}))
                    .ok());
  }
  for (const char* bad_if :
       {"l2(*) > 7.9", "l2({a,b}) >= 8", "absmax(a) > 2", "min(*) < -1",
        "max(*) < 1.5", "mean(a) == -4", "mean(*) < 0", "zeros(*) > 0.6",
        "zeros(b) == 1"}) {
    const auto found = Bisect(other, bad_if);
    ASSERT_TRUE(found.ok()) << bad_if << found.status().ToString();
    ASSERT_TRUE(found->first_bad) << bad_if;
    EXPECT_EQ(found->first_bad->step, 3) << bad_if;
    EXPECT_EQ(found->last_good.step, 2) << bad_if;
  }
}

TEST_F(HistoryTest, NoMoreIsReadThanThePredicateNames) {
  PutRun(100, 370);
  const auto found = Bisect(root_, "nan(state.w)");
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->first_bad->step, 370);
  EXPECT_EQ(found->step_count, 100u);
  EXPECT_LE(found->probes.size(), 7u + 2u);  // ceil(log2(100)) + 2
  EXPECT_EQ(found->leaf_count, found->probes.size());
  EXPECT_EQ(found->bytes, 8 * found->probes.size());
  // A metric needs no tensors, and no tensor is read twice.
  EXPECT_EQ(Bisect(root_, "metric(loss) > 5")->leaf_count, 0u);
  const auto both = Bisect(root_, "max(state.w) > 7 or nan(state.w)");
  EXPECT_EQ(both->leaf_count, both->probes.size());
  EXPECT_EQ(both->bytes, 8 * both->probes.size());
}

TEST_F(HistoryTest, StepsThatCannotBeJudgedAreSkippedByName) {
  PutRun(9, 50);
  WriteTestFile(PathOfStep(90) + "/state/manifest.ocdbt", "damaged");
  fs::remove_all(PathOfStep(10) + "/state");
  const auto found = Bisect(root_, "nan(state.w)");
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->first_bad->step, 50);
  EXPECT_THAT(Verdicts(*found), HasSubstr("90 skip; 80 bad; 10 skip; 20 good"));
  EXPECT_THAT(found->probes[0].answer.why, HasSubstr("manifest.ocdbt"));
  EXPECT_EQ(found->probes[2].answer.why, "no tensor matches state.w");

  fs::remove_all(PathOfStep(50) + "/state");
  fs::remove_all(PathOfStep(40) + "/state");
  const auto hidden = Bisect(root_, "nan(state.w)");
  ASSERT_TRUE(hidden.ok()) << hidden.status().ToString();
  EXPECT_FALSE(hidden->first_bad);
  EXPECT_EQ(hidden->last_good.step, 30);
  ASSERT_EQ(hidden->candidates.size(), 3u);
  EXPECT_EQ(hidden->candidates[0].step, 40);
  EXPECT_EQ(hidden->candidates[2].step, 60);
}

TEST_F(HistoryTest, TheEndsMustBeWhatIsSaidOfThem) {
  PutRun(5, 30);
  const Status good = BisectError("metric(loss) > 100");
  EXPECT_EQ(good.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(good.message()),
              HasSubstr("newest step must be bad, and is good: step 50 "
                        "(metric(loss) is 9)"));
  EXPECT_THAT(std::string(BisectError("metric(loss) > 0").message()),
              HasSubstr("oldest step must be good, and is bad: step 10 "
                        "(metric(loss) is 1)"));
  EXPECT_THAT(
      std::string(BisectError("metric(loss) > 5", {.bad = 20}).message()),
      HasSubstr("is good: step 20"));
  EXPECT_THAT(
      std::string(BisectError("metric(loss) > 5", {.good = 30}).message()),
      HasSubstr("is bad: step 30"));
  const auto narrow =
      Bisect(root_, "metric(loss) > 5", {.good = 20, .bad = 40});
  ASSERT_TRUE(narrow.ok());
  EXPECT_EQ(narrow->first_bad->step, 30);
  EXPECT_EQ(narrow->step_count, 3u);
  EXPECT_EQ(BisectError("metric(loss) > 5", {.good = 25}).message(),
            "bisect " + root_ + ": no step 25; there are 5 from 10 to 50");
  EXPECT_EQ(BisectError("metric(loss) > 5", {.good = 40, .bad = 20}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Bisect(scratch_ / "none", "nan(x)").status().code(),
            StatusCode::kNotFound);
}

TEST_F(HistoryTest, WhatNoStepHasIsSaid) {
  PutRun(3, 20);
  EXPECT_EQ(BisectError("nan(state.v)").ToString(),
            "NOT_FOUND: bisect " + root_ +
                ": no step has a tensor that matches state.v; there are "
                "state.big, state.w");
  EXPECT_EQ(BisectError("metric(los) > 1").ToString(),
            "NOT_FOUND: bisect " + root_ +
                ": no step has a metric los; there are loss");
  EXPECT_EQ(BisectError("nan(state.v").code(), StatusCode::kInvalidArgument);
}

TEST_F(HistoryTest, AFunctionOfThePathJudgesToo) {
  PutRun(6, 40);
  std::vector<std::string> told;
  BisectOptions options;
  options.on_probe = [&](const BisectProbe& probe) {
    told.push_back(probe.step.name);
  };
  const auto found = BisectBy(
      root_,
      [&](const std::string& path) -> Result<StepAnswer> {
        StepAnswer answer;
        answer.verdict = path == PathOfStep(60) || path == PathOfStep(50) ||
                                 path == PathOfStep(40)
                             ? StepVerdict::kBad
                             : StepVerdict::kGood;
        return answer;
      },
      options);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->first_bad->step, 40);
  EXPECT_THAT(told, ElementsAre("60", "10", "30", "40"));

  std::atomic<bool> cancel = true;
  options.run.cancel = &cancel;
  const auto cancelled = BisectBy(
      root_,
      [](const std::string&) -> Result<StepAnswer> {
        return InternalError("asked all the same");
      },
      options);
  EXPECT_EQ(cancelled.status().code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace holdfast
