#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/steps/steps_test_util.h"
#include "holdfast/steps/preemption.h"
#include "holdfast/steps/wait_for_checkpoint.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

// Time that passes only during sleep, and actions that happen then.
struct FakeTime {
  double now = 0;
  std::function<void(double now)> on_sleep;

  WaitOptions Options() {
    WaitOptions options;
    options.now_seconds = [this] { return now; };
    options.sleep = [this](double seconds) {
      now += seconds;
      if (on_sleep) on_sleep(now);
    };
    return options;
  }
};

TEST(WaitForStep, WaitsForTheStepThatIsFarEnough) {
  ScratchDirectory scratch;
  FakeTime time;
  time.on_sleep = [&](double now) {
    PutStep(scratch.path(), std::to_string(static_cast<int>(now)), 1);
  };
  WaitOptions options = time.Options();
  options.until_step = 3;
  const auto pinned = WaitForNewCheckpoint(scratch.path(), options);
  ASSERT_TRUE(pinned.ok()) << pinned.status().ToString();
  EXPECT_EQ((*pinned)->step(), 3);
  EXPECT_EQ(time.now, 3);
}

TEST(WaitForStep, GivesUpInTime) {
  ScratchDirectory scratch;
  FakeTime time;
  WaitOptions options = time.Options();
  options.timeout_seconds = 5;
  const auto nothing = WaitForNewCheckpoint(scratch / "nowhere", options);
  ASSERT_TRUE(nothing.ok());
  EXPECT_EQ(*nothing, nullptr);
  EXPECT_EQ(time.now, 5);
  int asked = 0;
  options.timeout_fn = [&] { return ++asked == 3; };
  EXPECT_EQ(*WaitForNewCheckpoint(scratch.path(), options), nullptr);
  EXPECT_EQ(asked, 3);
  const std::atomic<bool> cancel{true};
  options.cancel = &cancel;
  EXPECT_EQ(WaitForNewCheckpoint(scratch.path(), options).status().code(),
            StatusCode::kCancelled);
}

TEST(WaitForStep, PinnedFilesOutliveTheStep) {
  ScratchDirectory scratch;
  PutStep(scratch.path(), "7", 1);
  std::string path;
  {
    const auto first = WaitForNewCheckpoint(scratch.path());
    const auto second = WaitForNewCheckpoint(scratch.path());
    fs::remove_all(scratch / "7");
    path = (*first)->path();
    EXPECT_NE(path, (*second)->path());
    EXPECT_TRUE(fs::exists(path + "/default/metadata"));
    EXPECT_TRUE(fs::exists((*second)->path() + "/default/metadata"));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(WaitForStep, SnapshotsOfTheDeadAreRemoved) {
  ScratchDirectory scratch;
  PutStep(scratch.path(), "7", 1);
  WriteTestFile(scratch / "_SNAPSHOTS/5.snapshot_1_0/file", "");
  WriteTestFile(scratch / "_SNAPSHOTS/other/file", "");
  ASSERT_TRUE(WaitForNewCheckpoint(scratch.path()).ok());
  EXPECT_FALSE(fs::exists(scratch / "_SNAPSHOTS/5.snapshot_1_0"));
  EXPECT_TRUE(fs::exists(scratch / "_SNAPSHOTS/other/file"));
}

TEST(CreateSnapshot, OutlivesTheStep) {
  ScratchDirectory scratch;
  PutStep(scratch.path(), "7", 1);
  const std::string snapshot = scratch / "mine";
  ASSERT_TRUE(CreateSnapshot(scratch / "7", snapshot).ok());
  fs::remove_all(scratch / "7");
  EXPECT_TRUE(fs::exists(snapshot + "/default/metadata"));
  ASSERT_TRUE(ReleaseSnapshot(snapshot).ok());
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

TEST(CreateSnapshot, RefusesInTheWordsOfOrbax) {
  ScratchDirectory scratch;
  PutStep(scratch.path(), "7", 1);
  const std::string mine = scratch / "mine";
  const auto refusal = [](const Status& status) { return status.ToString(); };
  EXPECT_EQ(refusal(CreateSnapshot("gs://b/7", mine)),
            "INVALID_ARGUMENT: Snapshot is not supported in object stores, "
            "which have no links: gs://b/7 to " +
                mine + ".");
  EXPECT_EQ(refusal(CreateSnapshot(scratch / "7", "mine")),
            "INVALID_ARGUMENT: Snapshot destination must be absolute, but was "
            "'mine'.");
  EXPECT_EQ(refusal(CreateSnapshot(scratch / "8", mine)),
            "INVALID_ARGUMENT: Snapshot source does not exist: " +
                (scratch / "8") + "'.");
  EXPECT_EQ(refusal(ReleaseSnapshot(mine)),
            "NOT_FOUND: Snapshot does not exist: " + mine);
  // A snapshot that cannot appear leaves nothing behind.
  WriteTestFile(mine + "/file", "");
  EXPECT_EQ(CreateSnapshot(scratch / "7", mine).code(),
            StatusCode::kAlreadyExists);
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch.path()), {}), 2);
}

TEST(WaitForStep, IteratorGivesEachNewStepOnce) {
  ScratchDirectory scratch;
  FakeTime time;
  PutStep(scratch.path(), "1", 1);
  time.on_sleep = [&](double now) {
    if (now == 2) PutStep(scratch.path(), "5", 1);
  };
  WaitOptions options = time.Options();
  options.timeout_seconds = 10;
  CheckpointsIterator steps(scratch.path(), options);
  EXPECT_EQ((*steps.Next())->step(), 1);
  EXPECT_EQ((*steps.Next())->step(), 5);
  EXPECT_EQ(*steps.Next(), nullptr);
}

TEST(Preemption, IsNotedByItsSignal) {
  ASSERT_TRUE(WatchForPreemption(SIGUSR2).ok());
  EXPECT_FALSE(PreemptionSignalled());
  ASSERT_EQ(std::raise(SIGUSR2), 0);
  EXPECT_TRUE(PreemptionSignalled());
  ForgetPreemption();
  EXPECT_FALSE(PreemptionSignalled());
  EXPECT_EQ(WatchForPreemption(0).code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(WatchForPreemption(SIGKILL).ok());
}

}  // namespace
}  // namespace holdfast
