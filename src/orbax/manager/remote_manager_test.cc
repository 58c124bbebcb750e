// A manager whose root is in an object store. It must keep the guarantees that
// manager_test.cc tests, even if the process dies at any request of a save that
// removes old steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "engine/commit/lease.h"
#include "ground/base/status_macros.h"
#include "holdfast/orbax/checkpoint_manager.h"
#include "holdfast/orbax/item_handlers.h"
#include "holdfast/steps/wait_for_checkpoint.h"
#include "twins/mem_bucket.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kRemoteRoot[] = "mem://test/run";

Tree RemoteState(int64_t step) {
  const std::vector<float> values(16, static_cast<float>(step));
  return Tree::Dict({{"w", Tree::JaxArray(Array::FromBytes(
                               DType::kFloat32, {4, 4}, values.data()))},
                     {"epoch", Tree(step)}});
}

class RemoteManager : public ::testing::TestWithParam<bool> {
 protected:
  RemoteManager() {
    SetLeaseSleepForTest([this](double seconds) {
      mem_.memory->AdvanceTime(static_cast<int64_t>(seconds * 1e9));
    });
  }
  ~RemoteManager() override { SetLeaseSleepForTest(nullptr); }

  // Saves are synchronous, so that the requests of one thread can be counted.
  static CheckpointManagerOptions Options() {
    CheckpointManagerOptions options;
    options.enable_async_checkpointing = GetParam();
    options.max_to_keep = 2;
    options.cleanup_tmp_directories = true;
    return options;
  }
  static std::unique_ptr<CheckpointManager> Make(
      CheckpointManagerOptions options, const std::string& metadata = "") {
    auto manager =
        CheckpointManager::Make(kRemoteRoot, std::move(options), {}, metadata);
    EXPECT_TRUE(manager.ok()) << manager.status().ToString();
    return manager.ok() ? *std::move(manager) : nullptr;
  }
  static Status SaveStep(CheckpointManager& manager, int64_t step) {
    HF_RETURN_IF_ERROR(
        manager.Save(step, StandardSave(RemoteState(step)), {}).status());
    return manager.WaitUntilFinished();
  }
  static int64_t EpochOf(const Result<Tree>& tree) {
    if (!tree.ok()) {
      ADD_FAILURE() << tree.status().ToString();
      return -1;
    }
    return tree->Find("epoch")->scalar().As<int64_t>();
  }
  // Returns the first part of each key below the root.
  std::set<std::string> Entries() const {
    std::set<std::string> entries;
    const auto page = mem_.memory->List({.prefix = "run/", .delimiter = "/"});
    for (const std::string& prefix : page->prefixes) {
      entries.insert(prefix.substr(4, prefix.size() - 5));
    }
    return entries;
  }

  MemBucketForTest mem_;
};

TEST_P(RemoteManager, SavesKeepsAndRestores) {
  {
    const auto manager = Make(Options(), R"({"run": 5})");
    for (const int64_t step : {1, 2, 5}) {
      const Status saved = SaveStep(*manager, step);
      ASSERT_TRUE(saved.ok()) << saved.ToString();
    }
    EXPECT_THAT(manager->AllSteps(), ElementsAre(2, 5));
    EXPECT_EQ(EpochOf(manager->Restore(std::nullopt)), 5);
    ASSERT_TRUE(manager->Close().ok());
  }
  const auto manager = Make(Options());
  EXPECT_THAT(manager->AllSteps(), ElementsAre(2, 5));
  EXPECT_EQ(EpochOf(manager->Restore(2)), 2);
  EXPECT_EQ(*manager->RootMetadata(), R"({"run": 5})");
  EXPECT_THAT(Entries(), ElementsAre("2", "5", "metadata"));
  ASSERT_TRUE(manager->Delete(2).ok());
  EXPECT_THAT(manager->AllSteps(), ElementsAre(5));
  ASSERT_TRUE(manager->Close().ok());
  EXPECT_THAT(Entries(), ElementsAre("5", "metadata"));
}

TEST_P(RemoteManager, KeepsTheBest) {
  CheckpointManagerOptions options = Options();
  options.best_fn = MetricNamed("loss");
  options.best_mode = "min";
  const auto manager = Make(options);
  for (const int64_t step : {1, 2, 3, 4}) {
    ManagerSaveOptions save;
    save.metrics = Tree::Dict({{"loss", step == 2 ? 0.5 : 1.0 + step}});
    ASSERT_TRUE(
        manager->Save(step, StandardSave(RemoteState(step)), save).ok());
    ASSERT_TRUE(manager->WaitUntilFinished().ok());
  }
  EXPECT_EQ(manager->BestStep(), 2);
  ASSERT_TRUE(manager->Reload().ok());
  EXPECT_THAT(manager->AllSteps(), ElementsAre(1, 2));
}

TEST_P(RemoteManager, ToDeleteOptionsAreOrbaxs) {
  CheckpointManagerOptions options = Options();
  options.todelete_full_path = "trash";
  EXPECT_EQ(CheckpointManager::Make(kRemoteRoot, options).status().code(),
            StatusCode::kUnimplemented);  // works only in Google's stores
  options.todelete_full_path.reset();
  options.todelete_subdir = "trash";
  const auto manager = Make(options);
  for (const int64_t step : {1, 2, 3}) {
    ASSERT_TRUE(SaveStep(*manager, step).ok());
  }
  ASSERT_TRUE(manager->Close().ok());
  // In Google's stores, steps are removed instead of being moved to "trash".
  EXPECT_THAT(Entries(), ElementsAre("2", "3", "trash"));
}

TEST_P(RemoteManager, StepsGoIntoTheTrashAndComeBack) {
  const auto manager = Make(Options());
  for (const int64_t step : {1, 2}) {
    ASSERT_TRUE(SaveStep(*manager, step).ok());
  }
  const auto trashed = TrashSteps(kRemoteRoot, {"1"}, TrashUse::kKeep);
  ASSERT_TRUE(trashed.ok()) << trashed.status().ToString();
  ASSERT_TRUE(manager->Reload().ok());
  EXPECT_THAT(manager->AllSteps(), ElementsAre(2));
  const auto back = UndeleteStep(kRemoteRoot, 1);
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  ASSERT_TRUE(manager->Reload().ok());
  EXPECT_THAT(manager->AllSteps(), ElementsAre(1, 2));
  EXPECT_EQ(EpochOf(manager->Restore(1)), 1);
  ASSERT_TRUE(TrashSteps(kRemoteRoot, {"1"}, TrashUse::kKeep).ok());
  const auto emptied = EmptyTrash(kRemoteRoot);
  ASSERT_TRUE(emptied.ok()) << emptied.status().ToString();
  EXPECT_EQ(emptied->step_count, 1u);
  EXPECT_THAT(Entries(), ElementsAre("2"));
}

TEST_P(RemoteManager, HasNoSnapshots) {
  const auto manager = Make(Options());
  ASSERT_TRUE(SaveStep(*manager, 3).ok());
  WaitOptions wait;
  wait.timeout_seconds = 1;
  wait.snapshot = true;
  const auto pinned = WaitForNewCheckpoint(kRemoteRoot, wait);
  ASSERT_TRUE(pinned.ok()) << pinned.status().ToString();
  EXPECT_EQ((*pinned)->path(), std::string(kRemoteRoot) + "/3");
}

// Two steps are kept, so saving the fourth step removes the second.
TEST_P(RemoteManager, ADeadProcessLosesNoStep) {
  uint64_t point_count = 0;
  for (uint64_t k = 1;; ++k) {
    std::vector<std::string> keys;
    const auto page = mem_.memory->List({});
    for (const ObjectEntry& object : page->objects) keys.push_back(object.key);
    ASSERT_TRUE(mem_.memory->DeleteAll(keys).ok());
    mem_.bucket->SetFaults({});
    auto manager = Make(Options());
    for (const int64_t step : {1, 2, 3}) {
      ASSERT_TRUE(SaveStep(*manager, step).ok());
    }
    ASSERT_TRUE(manager->Close().ok());
    manager = Make(Options());
    mem_.bucket->SetFaults({.fail_at = k, .acts = k % 2 == 0, .dies = true});
    (void)SaveStep(*manager, 4);
    (void)manager->Close();
    manager.reset();
    const bool has_died = mem_.bucket->died();
    mem_.bucket->SetFaults({});
    if (!has_died) {
      point_count = k - 1;
      break;
    }
    SCOPED_TRACE("request " + std::to_string(k));
    manager = Make(Options());
    ASSERT_NE(manager, nullptr);
    const auto latest = manager->LatestStep();
    ASSERT_TRUE(latest == 3 || latest == 4) << latest.value_or(-1);
    for (const int64_t step : manager->AllSteps()) {
      EXPECT_EQ(EpochOf(manager->Restore(step)), step);
    }
    const Status again = SaveStep(*manager, *latest + 1);
    EXPECT_TRUE(again.ok()) << again.ToString();
    EXPECT_EQ(EpochOf(manager->Restore(std::nullopt)), *latest + 1);
    EXPECT_TRUE(manager->Close().ok());
    std::set<std::string> kept;
    for (const int64_t step : manager->AllSteps()) {
      kept.insert(std::to_string(step));
    }
    EXPECT_EQ(Entries(), kept);
    EXPECT_EQ(kept.size(), 2u);
  }
  RecordProperty("crash_points", static_cast<int>(point_count));
  EXPECT_GT(point_count, 20u);
}

INSTANTIATE_TEST_SUITE_P(SyncAndAsync, RemoteManager, ::testing::Bool());

}  // namespace
}  // namespace holdfast
