// Tests scanning, the trash, pruning and disk usage on directories of steps.
#include "holdfast/steps/steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "engine/steps/steps_test_util.h"
#include "engine/steps/trash.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kSecond = 1'000'000'000;

class Steps : public ::testing::Test {
 protected:
  std::vector<int64_t> Numbers(const ScanOptions& options = {}) {
    std::vector<int64_t> numbers;
    const auto steps = ScanSteps(root_, options);
    EXPECT_TRUE(steps.ok()) << steps.status().ToString();
    for (const ScannedStep& step : *steps) numbers.push_back(step.step);
    return numbers;
  }

  PrunePlan Plan(std::vector<PruneRule> keep) {
    PruneOptions options;
    options.keep = std::move(keep);
    options.now_ns = 100 * kSecond;
    const auto plan = PlanPrune(root_, options);
    EXPECT_TRUE(plan.ok()) << plan.status().ToString();
    return *plan;
  }

  ScratchDirectory scratch_;
  const std::string root_ = scratch_.path();
};

TEST_F(Steps, ADamagedNewestStepNamesOneThatIsWhole) {
  PutStep(root_, "1", 5);
  PutStep(root_, "2", 6);
  PutStep(root_, "3", 7);
  const std::vector<FoundStep> steps = {{1, "1"}, {2, "2"}, {3, "3"}};
  EXPECT_TRUE(CheckNewestStep(root_, steps[2], "", steps).ok());
  EXPECT_THAT(
      std::string(
          CheckNewestStep(root_, steps[2], "bad bytes", steps).message()),
      HasSubstr("damaged: bad bytes; the newest step that is whole is "
                "2,"));
  fs::remove_all(root_ + "/3/default");
  fs::remove_all(root_ + "/2/default");
  const Status damaged = CheckNewestStep(root_, steps[2], "", steps);
  EXPECT_EQ(damaged.code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(damaged.message()), HasSubstr("step 3 of "));
  EXPECT_THAT(std::string(damaged.message()), HasSubstr("whole is 1,"));
}

TEST_F(Steps, ScanTellsTimesAndMetrics) {
  PutStep(root_, "20", 5, R"({"loss": 0.5})");
  PutStep(root_, "3", 7);
  WriteTestFile(root_ + "/10/anything", "");  // an old step, without metadata
  fs::last_write_time(root_ + "/10", fs::file_time_type::clock::now());
  fs::create_directory(root_ + "/4.orbax-checkpoint-tmp");
  fs::create_directory(root_ + "/metadata");
  const auto steps = ScanSteps(root_);
  ASSERT_TRUE(steps.ok());
  ASSERT_EQ(steps->size(), 3u);
  EXPECT_EQ((*steps)[0].step, 3);
  EXPECT_EQ((*steps)[0].commit_time_ns, 7);
  EXPECT_FALSE((*steps)[0].metrics_json);
  EXPECT_GT((*steps)[1].commit_time_ns, kSecond);
  EXPECT_EQ((*steps)[1].commit_time_ns % kSecond, 0);
  EXPECT_EQ((*steps)[2].metrics_json, R"({"loss": 0.5})");
  EXPECT_THAT(*ScanSteps(root_ + "/nowhere"), IsEmpty());
}

TEST_F(Steps, DescribedByTheirPathsAndDamagedMetricsAreNone) {
  PutStep(root_, "a", 5, R"({"loss": NaN})");
  PutStep(root_, "b", 6, "{");
  const auto steps =
      DescribeSteps({root_ + "/b", root_ + "/nowhere", root_ + "/a"});
  ASSERT_TRUE(steps.ok()) << steps.status().ToString();
  ASSERT_EQ(steps->size(), 2u);
  EXPECT_EQ((*steps)[0].name, root_ + "/b");
  EXPECT_EQ((*steps)[0].commit_time_ns, 6);
  EXPECT_FALSE((*steps)[0].metrics_json);
  EXPECT_EQ((*steps)[1].name, root_ + "/a");
  EXPECT_EQ((*steps)[1].metrics_json, R"({"loss": NaN})");
}

TEST_F(Steps, ScanOfOneFormatAndOfWhatIsNotCommitted) {
  PutStep(root_, "a_1", 1);
  PutStep(root_, "2", 1);
  fs::create_directory(root_ + "/a_3.orbax-checkpoint-tmp-1712345678");
  ScanOptions options;
  options.format = StandardNameFormat({.step_prefix = "a"});
  EXPECT_THAT(Numbers(options), ElementsAre(1));
  options.include_uncommitted = true;
  EXPECT_THAT(Numbers(options), ElementsAre(1, 3));
  options.format = nullptr;
  EXPECT_THAT(Numbers(options), ElementsAre(1, 2, 3));
}

TEST_F(Steps, BegunAndNeverFinishedIsNotCommitted) {
  PutStep(root_, "1", 1);
  WriteTestFile(root_ + "/2/_CHECKPOINT_METADATA",
                R"({"item_handlers": null, "init_timestamp_nsecs": 5,
              "commit_timestamp_nsecs": null})");
  EXPECT_THAT(Numbers(), ElementsAre(1));
  WriteTestFile(root_ + "/2/commit_success.txt", "");
  EXPECT_THAT(Numbers(), ElementsAre(1, 2));
}

// Compares one thread, as a slow model, with any number of threads.
TEST_F(Steps, ScanIsTheSameOnManyThreads) {
  for (int i = 0; i < 300; ++i) {
    PutStep(root_, std::to_string(i), i,
            i % 3 == 0 ? R"({"loss": )" + std::to_string(i) + "}" : "");
  }
  ScanOptions options;
  options.threads = 1;
  const auto one = ScanSteps(root_, options);
  options.threads = 8;
  const auto many = ScanSteps(root_, options);
  ASSERT_EQ(one->size(), 300u);
  ASSERT_EQ(many->size(), 300u);
  for (size_t i = 0; i < 300; ++i) {
    EXPECT_EQ((*one)[i].name, (*many)[i].name);
    EXPECT_EQ((*one)[i].commit_time_ns, static_cast<int64_t>(i));
    EXPECT_EQ((*one)[i].metrics_json, (*many)[i].metrics_json);
  }
}

TEST_F(Steps, TrashedStepsAreGoneAndComeBack) {
  PutStep(root_, "1", 1);
  PutStep(root_, "2", 1);
  const auto path = TrashStep(root_, "1", TrashUse::kKeep);
  ASSERT_TRUE(path.ok()) << path.status().ToString();
  EXPECT_TRUE(fs::exists(*path + "/default/metadata"));
  EXPECT_THAT(Numbers(), ElementsAre(2));
  EXPECT_EQ(TrashStep(root_, "1").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(*UndeleteStep(root_, 1), root_ + "/1");
  EXPECT_THAT(Numbers(), ElementsAre(1, 2));
  EXPECT_EQ(UndeleteStep(root_, 1).status().code(), StatusCode::kNotFound);
}

TEST_F(Steps, UndeleteBringsTheLastOfThatStepAndReplacesNothing) {
  for (const std::string text : {"old", "new"}) {
    WriteTestFile(root_ + "/1/file", text);
    ASSERT_TRUE(TrashStep(root_, "1", TrashUse::kKeep).ok());
  }
  WriteTestFile(root_ + "/1/file", "newest");
  EXPECT_EQ(UndeleteStep(root_, 1).status().code(), StatusCode::kAlreadyExists);
  fs::remove_all(root_ + "/1");
  ASSERT_TRUE(UndeleteStep(root_, 1).ok());
  EXPECT_EQ(ReadTestFile(root_ + "/1/file"), "new");
}

TEST_F(Steps, WhatIsBeingRemovedNeverComesBack) {
  PutStep(root_, "1", 1);
  PutStep(root_, "2", 1);
  ASSERT_TRUE(TrashStep(root_, "1", TrashUse::kRemove).ok());
  ASSERT_TRUE(TrashStep(root_, "2", TrashUse::kKeep).ok());
  EXPECT_EQ(UndeleteStep(root_, 1).status().code(), StatusCode::kNotFound);
  const auto leftovers = EmptyTrash(root_, /*only_leftovers=*/true);
  ASSERT_TRUE(leftovers.ok());
  EXPECT_EQ(leftovers->step_count, 1u);
  EXPECT_EQ(ListTrash(root_)->size(), 1u);
  const auto rest = EmptyTrash(root_);
  EXPECT_EQ(rest->step_count, 1u);
  EXPECT_GT(rest->bytes, 0u);
  EXPECT_THAT(*ListTrash(root_), IsEmpty());
}

TEST_F(Steps, TrashTouchesNothingOfOthers) {
  fs::create_directories(root_ + "/.holdfast_trash/not ours");
  WriteTestFile(root_ + "/.holdfast_trash/1.17", "a file");
  ASSERT_TRUE(EmptyTrash(root_).ok());
  EXPECT_TRUE(fs::exists(root_ + "/.holdfast_trash/not ours"));
  EXPECT_TRUE(fs::exists(root_ + "/.holdfast_trash/1.17"));
  WriteTestFile(root_ + "/7", "a file");
  EXPECT_EQ(TrashStep(root_, "7").status().code(),
            StatusCode::kFailedPrecondition);
  for (const char* name : {"", ".", "..", "a/b", ".holdfast_trash"}) {
    EXPECT_EQ(TrashStep(root_, name).status().code(),
              StatusCode::kInvalidArgument)
        << name;
  }
}

// A full disk has no room for a directory; here a file is in its place.
TEST_F(Steps, WithoutATrashStepsGoByATemporaryName) {
  WriteTestFile(root_ + "/.holdfast_trash", "in the way");
  PutStep(root_, "1", 1);
  PutStep(root_, "2", 1);
  EXPECT_FALSE(TrashStep(root_, "1", TrashUse::kKeep).ok());
  const auto path = TrashStep(root_, "1", TrashUse::kRemove);
  ASSERT_TRUE(path.ok()) << path.status().ToString();
  EXPECT_THAT(*path, HasSubstr(root_ + "/1.orbax-checkpoint-tmp-"));
  EXPECT_THAT(Numbers(), ElementsAre(2));
  ASSERT_TRUE(RemoveDirectoryTree(*path).ok());
  EXPECT_FALSE(fs::exists(*path));
}

TEST_F(Steps, TheTrashGoesWithItsLastStep) {
  PutStep(root_, "1", 1);
  PutStep(root_, "2", 2);
  const auto left = DisposeOfSteps(root_, {"1", "2"});
  ASSERT_TRUE(left.ok()) << left.status().ToString();
  const std::vector<std::string>& paths = left->to_remove;
  ASSERT_EQ(paths.size(), 2u);
  EXPECT_THAT(DisposalLeftovers(root_), ElementsAre(paths[0], paths[1]));
  ASSERT_TRUE(RemoveTrashed(paths[0]).ok());
  EXPECT_TRUE(fs::exists(TrashPath(root_)));
  ASSERT_TRUE(RemoveTrashed(paths[1]).ok());
  EXPECT_FALSE(fs::exists(TrashPath(root_)));
}

TEST_F(Steps, NoStepStaysWhileTheTrashComesAndGoes) {
  constexpr int kCount = 20;
  for (int i = 0; i < kCount; ++i) PutStep(root_, std::to_string(i), i);
  std::atomic<bool> is_done{false};
  // Acts like another program that removes the last step again and again.
  std::thread other([&] {
    while (!is_done) ::rmdir(TrashPath(root_).c_str());
  });
  for (int i = 0; i < kCount; ++i) {
    const auto left = DisposeOfSteps(root_, {std::to_string(i)});
    ASSERT_TRUE(left.ok()) << left.status().ToString();
    for (const std::string& path : left->to_remove) {
      EXPECT_TRUE(RemoveTrashed(path).ok());
    }
  }
  is_done = true;
  other.join();
  EXPECT_THAT(Numbers(), IsEmpty());
}

TEST_F(Steps, StepsThatAreNotKeptMayStayElsewhere) {
  PutStep(root_, "1", 1);
  const auto moved =
      DisposeOfSteps(root_, {"1", "2"}, {.todelete_subdir = "old"});
  ASSERT_TRUE(moved.ok()) << moved.status().ToString();
  EXPECT_THAT(moved->to_remove, IsEmpty());
  EXPECT_TRUE(fs::exists(root_ + "/old/1/default"));
  EXPECT_EQ(DisposeOfSteps(root_, {"1"}, {.todelete_full_path = "old"})
                .status()
                .code(),
            StatusCode::kUnimplemented);
}

TEST(TrashNames, ReadBack) {
  for (const TrashName& name :
       {TrashName{"7", 5, false},
        TrashName{"a.b_7", 1795201191302735606, true}}) {
    const auto read = ParseTrashName(TrashNameText(name));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->name, name.name);
    EXPECT_EQ(read->time_ns, name.time_ns);
    EXPECT_EQ(read->is_being_removed, name.is_being_removed);
  }
  for (const char* text : {"7", ".5", "7.", "7.x", "7.-5", "7.removing"}) {
    EXPECT_FALSE(ParseTrashName(text)) << text;
  }
}

TEST_F(Steps, PruneKeepsWhatAnyRuleKeepsAndTheNewest) {
  for (int i = 1; i <= 6; ++i) {
    PutStep(root_, std::to_string(i), i * 10 * kSecond,
            R"({"loss": )" + std::to_string(10 - i) + "}");
  }
  const PrunePlan plan = Plan({{"best", BestN{MetricNamed("loss"), false, 1}},
                               {"every 3", EveryNSteps{3}}});
  std::vector<std::vector<std::string>> labels;
  for (const PruneRow& row : plan.rows) labels.push_back(row.kept_by);
  using Labels = std::vector<std::string>;
  EXPECT_THAT(labels, ElementsAre(Labels{"best"}, Labels{}, Labels{"every 3"},
                                  Labels{}, Labels{}, Labels{"every 3"}));
  EXPECT_EQ(plan.freed_bytes,
            plan.rows[1].bytes + plan.rows[3].bytes + plan.rows[4].bytes);
  EXPECT_THAT(Numbers(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(*Prune(root_, plan), ElementsAre("2", "4", "5"));
  EXPECT_THAT(Numbers(), ElementsAre(1, 3, 6));
  const PrunePlan none = Plan({{"none", LatestN{0}}});
  EXPECT_THAT(none.rows.back().kept_by, ElementsAre("the newest"));
}

TEST_F(Steps, PruneStopsWhenWhatItKeepsIsGone) {
  PutStep(root_, "1", 1);
  PutStep(root_, "2", 1);
  const PrunePlan plan = Plan({{"the latest", LatestN{1}}});
  fs::remove_all(root_ + "/2");
  EXPECT_EQ(Prune(root_, plan).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_THAT(Numbers(), ElementsAre(1));
}

// The root also holds a project that is named like a step, and a copy of a step
// that a user keeps.
TEST_F(Steps, PruneLeavesAloneWhatIsNoStepOfTheRoot) {
  for (const char* step : {"1", "2", "3"}) PutStep(root_, step, 1);
  PutStep(root_, "best_9", 1);
  WriteTestFile(root_ + "/data_2023/jan.csv", "1,2");
  WriteTestFile(root_ + "/2023/notes/metadata", "mine");
  WriteTestFile(root_ + "/scripts/train.py", "");
  fs::create_directory(root_ + "/4.orbax-checkpoint-tmp");
  const PrunePlan plan = Plan({{"the latest", LatestN{1}}});
  std::vector<std::string> steps, others;
  for (const PruneRow& row : plan.rows) steps.push_back(row.step.name);
  for (const LeftAlone& other : plan.left_alone) {
    others.push_back(other.name + ": " + other.why);
  }
  EXPECT_THAT(steps, ElementsAre("1", "2", "3"));
  EXPECT_THAT(plan.rows.back().kept_by, ElementsAre("the latest"));
  EXPECT_THAT(others, ElementsAre("2023: no checkpoint",
                                  "4.orbax-checkpoint-tmp: an unfinished save",
                                  "best_9: not named as the steps are",
                                  "data_2023: no checkpoint",
                                  "scripts: not named as the steps are"));
  EXPECT_THAT(*Prune(root_, plan), ElementsAre("1", "2"));
  for (const char* name : {"3", "best_9", "data_2023/jan.csv",
                           "2023/notes/metadata", "scripts/train.py"}) {
    EXPECT_TRUE(fs::exists(root_ + "/" + name)) << name;
  }
}

TEST_F(Steps, PruneWantsToKnowWhichNamesAreTheSteps) {
  for (const char* step : {"a_1", "a_2", "b_1", "b_2"}) PutStep(root_, step, 1);
  PruneOptions options;
  options.keep = {{"the latest", LatestN{1}}};
  EXPECT_EQ(PlanPrune(root_, options).status().code(),
            StatusCode::kFailedPrecondition);
  options.format = StandardNameFormat({.step_prefix = "b"});
  const auto plan = PlanPrune(root_, options);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_THAT(*Prune(root_, *plan), ElementsAre("b_1"));
}

TEST_F(Steps, PruneOfFilledNamesWantsTheirLength) {
  for (const char* step : {"00000001", "00000002", "0099", "7"}) {
    PutStep(root_, step, 1);
  }
  const PrunePlan plan = Plan({{"the latest", LatestN{1}}});
  EXPECT_THAT(*Prune(root_, plan), ElementsAre("00000001"));
}

TEST_F(Steps, TheTrashIsEmptiedOfCheckpointsAlone) {
  PutStep(root_, "1", 1);
  WriteTestFile(root_ + "/data_2023/jan.csv", "1,2");
  ASSERT_TRUE(TrashSteps(root_, {"1", "data_2023"}, TrashUse::kKeep).ok());
  const auto emptied = EmptyTrash(root_);
  ASSERT_TRUE(emptied.ok());
  EXPECT_EQ(emptied->step_count, 1u);
  ASSERT_EQ(emptied->left_alone.size(), 1u);
  EXPECT_EQ(ReadTestFile(emptied->left_alone[0] + "/jan.csv"), "1,2");
}

TEST_F(Steps, SharedFilesAreFreedWithTheirLastName) {
  WriteTestFile(root_ + "/1/d/data", std::string(1000, 'x'));
  WriteTestFile(root_ + "/2/d/own", std::string(10, 'x'));
  WriteTestFile(root_ + "/3/d/own", std::string(1, 'x'));
  fs::create_hard_link(root_ + "/1/d/data", root_ + "/2/d/data");
  for (const std::string step : {"1", "2", "3"}) {
    WriteTestFile(root_ + "/" + step + "/_METADATA", "");
  }
  EXPECT_EQ(Plan({{"2", CustomSteps{{2}}}}).freed_bytes, 0u);
  EXPECT_EQ(Plan({{"the latest", LatestN{1}}}).freed_bytes, 1010u);
}

TEST_F(Steps, DiskUsageCountsEachFileOnce) {
  PutStep(root_, "1", 1, R"({"a": 1})");
  WriteTestFile(root_ + "/1/state/d/data", std::string(1000, 'x'));
  WriteTestFile(root_ + "/1/state/manifest.ocdbt", std::string(100, 'x'));
  fs::create_directories(root_ + "/2/state/d");
  fs::create_hard_link(root_ + "/1/state/d/data", root_ + "/2/state/d/data");
  WriteTestFile(root_ + "/3.orbax-checkpoint-tmp/half", std::string(7, 'x'));
  WriteTestFile(root_ + "/.holdfast_trash/0.5/f", std::string(5, 'x'));
  WriteTestFile(root_ + "/metadata/_ROOT_METADATA", std::string(3, 'x'));
  WriteTestFile(root_ + "/loose", std::string(2, 'x'));
  const auto usage = MeasureDiskUsage(root_);
  ASSERT_TRUE(usage.ok()) << usage.status().ToString();
  EXPECT_EQ(usage->temporary_bytes, 7u);
  EXPECT_EQ(usage->trash_bytes, 5u);
  EXPECT_EQ(usage->other_bytes, 5u);
  EXPECT_EQ(usage->shared_bytes, 1000u);
  uint64_t rows_bytes = 0;
  for (const UsageRow& row : usage->rows) rows_bytes += row.bytes;
  EXPECT_EQ(usage->total_bytes, rows_bytes + 7 + 5 + 5);
  const UsageRow& last = usage->rows.back();
  EXPECT_EQ(last.step, "2");
  EXPECT_EQ(last.item, "state");
  EXPECT_EQ(last.kind, "data");
  EXPECT_EQ(last.bytes, 0u);
  EXPECT_EQ(last.shared_bytes, 1000u);
  EXPECT_EQ(usage->rows[0].item, "");
  EXPECT_EQ(usage->rows[0].kind, "metadata");
}

}  // namespace
}  // namespace holdfast
