// Tests of CheckpointManager with real directories.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <thread>

#include "holdfast/orbax/checkpoint_manager.h"
#include "holdfast/orbax/item_handlers.h"
#include "holdfast/steps/preemption.h"
#include "orbax/manager/step_remover.h"
#include "twins/scratch_directory.h"
#include "twins/thread_shortage.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Tree StateOf(int64_t step) {
  return Tree::Dict({{"epoch", step}, {"note", "x"}});
}

Tree LossOf(double loss) { return Tree::Dict({{"loss", loss}}); }

class ManagerTest : public ::testing::TestWithParam<bool> {
 protected:
  // Returns options that are asynchronous if the parameter is true.
  CheckpointManagerOptions Options() const {
    CheckpointManagerOptions options;
    options.enable_async_checkpointing = GetParam();
    options.sync = false;
    return options;
  }

  std::unique_ptr<CheckpointManager> Make(CheckpointManagerOptions options,
                                          const std::string& metadata = "") {
    auto manager =
        CheckpointManager::Make(root_, std::move(options), {}, metadata);
    EXPECT_TRUE(manager.ok()) << manager.status().ToString();
    return manager.ok() ? *std::move(manager) : nullptr;
  }

  static bool Save(CheckpointManager& manager, int64_t step,
                   const ManagerSaveOptions& options = {}) {
    const auto saved = manager.Save(step, JsonSave(StateOf(step)), options);
    EXPECT_TRUE(saved.ok()) << saved.status().ToString();
    return saved.ok() && *saved;
  }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(root_)) {
      const std::string name = entry.path().filename();
      if (name != kTrashDirectoryName) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  ScratchDirectory scratch_;
  std::string root_ = scratch_ / "run";
};

TEST_P(ManagerTest, SavesRestoresAndListsSteps) {
  const auto manager = Make(Options());
  EXPECT_EQ(manager->LatestStep(), std::nullopt);
  EXPECT_EQ(manager->Restore(std::nullopt).status().message(),
            "No steps found in " + root_ + ".");
  for (const int64_t step : {0, 1, 5}) EXPECT_TRUE(Save(*manager, step));
  EXPECT_FALSE(Save(*manager, 5));
  EXPECT_FALSE(Save(*manager, 3));
  EXPECT_THAT(manager->AllSteps(), ElementsAre(0, 1, 5));
  const auto latest = manager->Restore(std::nullopt);
  ASSERT_TRUE(latest.ok()) << latest.status().ToString();
  EXPECT_EQ(*JsonTextOf(*latest), R"({"epoch": 5, "note": "x"})");
  EXPECT_EQ(*JsonTextOf(*manager->Restore(1)), R"({"epoch": 1, "note": "x"})");
  ASSERT_TRUE(manager->Close().ok());
  const auto other = Make(Options());
  EXPECT_THAT(other->AllSteps(), ElementsAre(0, 1, 5));
  EXPECT_EQ(other->BestStep(), 5);
  EXPECT_TRUE(fs::exists(root_ + "/5/default"));
}

// Returning an older step instead of the latest step would silently lose work.
TEST_P(ManagerTest, ADamagedLatestStepNamesTheOneThatIsWhole) {
  const auto manager = Make(Options());
  for (const int64_t step : {1, 3, 5}) EXPECT_TRUE(Save(*manager, step));
  ASSERT_TRUE(manager->Close().ok());
  fs::rename(root_ + "/5/default", scratch_ / "aside");
  fs::remove_all(root_ + "/3/default");
  const std::string words = "step 5 of " + root_ + " was committed";
  const auto reader = Make(Options());
  EXPECT_EQ(reader->LatestStep(), 5);
  Status status = reader->Restore(std::nullopt).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.ToString();
  EXPECT_THAT(status.message(), testing::HasSubstr(words));
  EXPECT_THAT(status.message(), testing::HasSubstr("that is whole is 1"));
  fs::rename(scratch_ / "aside", root_ + "/5/default");
  const auto other = Make(Options());
  EXPECT_TRUE(other->Restore(std::nullopt).ok());
  WriteTestFile(root_ + "/5/default/metadata", R"({"epoch": 6})");
  status = other->Restore(std::nullopt).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.ToString();
  EXPECT_THAT(status.message(), testing::HasSubstr(words));
  EXPECT_EQ(other->Restore(5).status().code(), StatusCode::kDataLoss);
  EXPECT_TRUE(other->Restore(1).ok());
}

TEST_P(ManagerTest, ForceSavesOlderStepsAndOverwritesNone) {
  const auto manager = Make(Options());
  ManagerSaveOptions force;
  force.force = true;
  EXPECT_TRUE(Save(*manager, 5));
  EXPECT_TRUE(Save(*manager, 3, force));
  EXPECT_THAT(manager->AllSteps(), ElementsAre(3, 5));
  const auto again = manager->Save(3, JsonSave(StateOf(9)), force);
  EXPECT_EQ(again.status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(again.status().message(), "Checkpoint for step 3 already exists.");
  // In the meantime, another process has saved step 7.
  fs::copy(root_ + "/5", root_ + "/7", fs::copy_options::recursive);
  Status saved = manager->Save(7, JsonSave(StateOf(9)), force).status();
  EXPECT_EQ(saved.code(), StatusCode::kAlreadyExists) << saved.ToString();
  EXPECT_EQ(*JsonTextOf(*manager->Restore(7)), R"({"epoch": 5, "note": "x"})");
}

TEST_P(ManagerTest, KeepsTheLatestAndWhatThePeriodKeeps) {
  CheckpointManagerOptions options = Options();
  options.max_to_keep = 2;
  options.keep_period = 4;
  const auto manager = Make(options);
  for (int64_t step = 0; step < 8; ++step) EXPECT_TRUE(Save(*manager, step));
  EXPECT_THAT(manager->AllSteps(), ElementsAre(0, 4, 6, 7));
  ASSERT_TRUE(manager->WaitUntilFinished().ok());
  EXPECT_THAT(Names(), ElementsAre("0", "4", "6", "7"));
  ASSERT_TRUE(manager->Close().ok());
  EXPECT_THAT(*ListTrash(root_), IsEmpty());
}

TEST_P(ManagerTest, NoSettingCostsTheLastStep) {
  CheckpointManagerOptions options = Options();
  options.max_to_keep = 0;
  const auto manager = Make(options);
  EXPECT_TRUE(Save(*manager, 1));
  EXPECT_TRUE(Save(*manager, 2));
  ASSERT_TRUE(manager->WaitUntilFinished().ok());
  EXPECT_THAT(manager->AllSteps(), ElementsAre(2));
  EXPECT_THAT(Names(), ElementsAre("2"));
}

TEST_P(ManagerTest, KeepsTheBestAndKnowsThemAgain) {
  CheckpointManagerOptions options = Options();
  options.max_to_keep = 2;
  options.best_fn = MetricNamed("loss");
  options.best_mode = "min";
  {
    const auto manager = Make(options);
    for (const auto& [step, loss] :
         std::vector<std::pair<int64_t, double>>{{1, 3}, {2, 1}, {3, 2}}) {
      ManagerSaveOptions save;
      save.metrics = LossOf(loss);
      EXPECT_TRUE(Save(*manager, step, save));
    }
    EXPECT_THAT(manager->AllSteps(), ElementsAre(2, 3));
    EXPECT_EQ(manager->BestStep(), 2);
    ASSERT_TRUE(manager->Close().ok());
  }
  EXPECT_EQ(ReadTestFile(root_ + "/2/metrics/metrics"), R"({"loss": 1.0})");
  for (const bool lightweight : {false, true}) {
    options.lightweight_initialize = lightweight;
    const auto manager = Make(options);
    EXPECT_EQ(manager->BestStep(), 2);
    EXPECT_EQ((*manager->StepMetrics(3))->Find("loss"), 2.0);
    const auto metadata = manager->Metadata(3);
    ASSERT_TRUE(metadata.ok()) << metadata.status().ToString();
    EXPECT_EQ(metadata->metrics, R"({"loss": 2.0})");
  }
}

// A step of a diverged run must not replace a good step, in either mode.
TEST_P(ManagerTest, NotANumberIsNeverTheBest) {
  CheckpointManagerOptions options = Options();
  options.max_to_keep = 1;
  options.best_fn = MetricNamed("loss");
  int warned = 0;
  options.warn = [&](const std::string& text) {
    warned += text.find("NaN") != std::string::npos ? 1 : 0;
  };
  for (const std::string mode : {"min", "max"}) {
    options.best_mode = mode;
    root_ = scratch_ / mode;
    const auto manager = Make(options);
    ManagerSaveOptions save;
    save.metrics = LossOf(NAN);
    EXPECT_TRUE(Save(*manager, 1, save));
    EXPECT_EQ(manager->BestStep(), std::nullopt);
    save.metrics = LossOf(5);
    EXPECT_TRUE(Save(*manager, 2, save));
    save.metrics = LossOf(NAN);
    EXPECT_TRUE(Save(*manager, 3, save));
    EXPECT_THAT(manager->AllSteps(), ElementsAre(2));
    EXPECT_EQ(manager->BestStep(), 2);
    ASSERT_TRUE(manager->Close().ok());
  }
  EXPECT_EQ(warned, 4);
}

// A manager of a step's directory would find no steps, and restart the run
// there.
TEST_P(ManagerTest, AStepIsNoRoot) {
  {
    const auto manager = Make(Options());
    EXPECT_TRUE(Save(*manager, 5));
    ASSERT_TRUE(manager->Close().ok());
  }
  for (const bool read_only : {false, true}) {
    CheckpointManagerOptions options = Options();
    options.read_only = read_only;
    const Status status =
        CheckpointManager::Make(root_ + "/5", options, {}, "").status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
    EXPECT_THAT(status.message(), HasSubstr("checkpoint itself"));
  }
}

TEST_P(ManagerTest, MetricsAreWrittenOnlyForABestFunction) {
  ManagerSaveOptions save;
  save.metrics = LossOf(1);
  const auto manager = Make(Options());
  EXPECT_TRUE(Save(*manager, 1, save));
  ASSERT_TRUE(manager->WaitUntilFinished().ok());
  EXPECT_FALSE(fs::exists(root_ + "/1/metrics"));
  EXPECT_FALSE(*manager->StepMetrics(1));
}

TEST_P(ManagerTest, DeletesWhatIsNamed) {
  const auto manager = Make(Options());
  EXPECT_TRUE(Save(*manager, 1));
  EXPECT_TRUE(Save(*manager, 2));
  EXPECT_EQ(manager->Delete(3).message(),
            "Requested deleting a non-existent step: 3.");
  ASSERT_TRUE(manager->Delete(2).ok());
  EXPECT_THAT(manager->AllSteps(), ElementsAre(1));
  EXPECT_THAT(Names(), ElementsAre("1"));
  EXPECT_TRUE(Save(*manager, 2));
  ASSERT_TRUE(manager->WaitUntilFinished().ok());
  EXPECT_THAT(Names(), ElementsAre("1", "2"));
}

TEST_P(ManagerTest, StepsMayBeMovedAsideInstead) {
  for (const bool in_background : {false, true}) {
    SCOPED_TRACE(in_background);
    fs::remove_all(root_);
    CheckpointManagerOptions options = Options();
    options.max_to_keep = 1;
    options.todelete_subdir = "old/ones";
    options.enable_background_delete = in_background;
    options.step_prefix = "s";
    const auto manager = Make(options);
    for (const int64_t step : {1, 2, 3}) EXPECT_TRUE(Save(*manager, step));
    ASSERT_TRUE(manager->Close().ok());
    EXPECT_THAT(Names(), ElementsAre("old", "s_3"));
    EXPECT_TRUE(fs::exists(root_ + "/old/ones/s_2/_CHECKPOINT_METADATA"));
  }
}

TEST_P(ManagerTest, WarnsOfAStepWithTheTensorsOfTheStepBefore) {
  CheckpointManagerOptions options = Options();
  std::vector<std::string> warnings;
  options.warn = [&](const std::string& text) { warnings.push_back(text); };
  const auto manager = Make(options);
  const auto save = [&](int64_t step, float first) {
    const float weights[2] = {first, 2};
    const Tree state =
        Tree::Dict({{"w", Array::FromBytes(DType::kFloat32, {2}, weights)},
                    {"step", step}});
    EXPECT_TRUE(manager->Save(step, StandardSave(state)).ok());
    EXPECT_TRUE(manager->WaitUntilFinished().ok());
  };
  save(1, 1);
  EXPECT_THAT(warnings, IsEmpty());
  save(2, 1);
  EXPECT_THAT(warnings,
              ElementsAre(HasSubstr("step 2 holds exactly the tensors of step "
                                    "1 (1 floating-point arrays, 8 bytes")));
  save(3, 3);
  EXPECT_EQ(warnings.size(), 1);
}

TEST_P(ManagerTest, ReadOnlyWritesNothingUnlessForced) {
  ASSERT_TRUE(Save(*Make(Options()), 1));
  CheckpointManagerOptions options = Options();
  options.read_only = true;
  options.max_to_keep = 1;
  std::vector<std::string> warnings;
  options.warn = [&](const std::string& text) { warnings.push_back(text); };
  const auto manager = Make(options);
  EXPECT_THAT(warnings,
              ::testing::Contains("CheckpointManagerOptions.read_only=True, "
                                  "setting max_to_keep=None."));
  EXPECT_FALSE(Save(*manager, 2));
  ASSERT_TRUE(manager->Delete(1).ok());
  EXPECT_THAT(manager->AllSteps(), ElementsAre(1));
  ManagerSaveOptions force;
  force.force = true;
  EXPECT_TRUE(Save(*manager, 2, force));
  ASSERT_TRUE(manager->Close().ok());
  EXPECT_THAT(Names(), ElementsAre("1", "2"));
}

TEST_P(ManagerTest, ReadersSeeWhatIsNewAfterReload) {
  const auto writer = Make(Options());
  EXPECT_TRUE(Save(*writer, 1));
  ASSERT_TRUE(writer->WaitUntilFinished().ok());
  CheckpointManagerOptions options = Options();
  options.read_only = true;
  const auto reader = Make(options);
  EXPECT_TRUE(Save(*writer, 2));
  // The writer's own list includes the step that is being saved.
  ASSERT_TRUE(writer->Reload().ok());
  EXPECT_THAT(writer->AllSteps(), ElementsAre(1, 2));
  ASSERT_TRUE(writer->WaitUntilFinished().ok());
  EXPECT_THAT(reader->AllSteps(), ElementsAre(1));
  ASSERT_TRUE(reader->Reload().ok());
  EXPECT_THAT(reader->AllSteps(), ElementsAre(1, 2));
  EXPECT_TRUE(reader->Restore(2).ok());
}

TEST_P(ManagerTest, LeftoversOfCrashesGoAndNothingElse) {
  WriteTestFile(root_ + "/.holdfast_trash/3.17.removing/half", "x");
  WriteTestFile(root_ + "/.holdfast_trash/2.17/kept", "x");
  WriteTestFile(root_ + "/5.orbax-checkpoint-tmp/half", "x");
  WriteTestFile(root_ + "/notes/mine", "x");
  CheckpointManagerOptions options = Options();
  options.cleanup_tmp_directories = true;
  const auto manager = Make(options);
  EXPECT_THAT(manager->AllSteps(), IsEmpty());
  ASSERT_TRUE(manager->Close().ok());
  EXPECT_THAT(Names(), ElementsAre("notes"));
  EXPECT_FALSE(fs::exists(root_ + "/.holdfast_trash/3.17.removing"));
  EXPECT_TRUE(fs::exists(root_ + "/.holdfast_trash/2.17/kept"));
}

TEST_P(ManagerTest, RootMetadataIsWrittenOnce) {
  EXPECT_EQ(*Make(Options())->RootMetadata(), "{}");
  EXPECT_EQ(*Make(Options(), R"({"run": 7})")->RootMetadata(), R"({"run": 7})");
  EXPECT_EQ(*Make(Options(), R"({"run": 8})")->RootMetadata(), R"({"run": 7})");
  EXPECT_EQ(ReadTestFile(root_ + "/metadata/_ROOT_METADATA"),
            R"({"internal_metadata": {}, "custom_metadata": {"run": 7}})");
  CheckpointManagerOptions options = Options();
  options.read_only = true;
  const auto reader =
      CheckpointManager::Make(scratch_ / "none", options, {}, R"({"a": 1})");
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  EXPECT_EQ(*(*reader)->RootMetadata(), R"({"a": 1})");
  EXPECT_FALSE(fs::exists(scratch_ / "none"));
}

TEST_P(ManagerTest, ItemsByNameAndOneWithoutName) {
  const auto manager = Make(Options());
  CompositeArgs items;
  items.items["state"] = std::make_shared<JsonSave>(StateOf(1));
  items.items["meta"] = std::make_shared<JsonSave>(StateOf(2));
  ASSERT_TRUE(manager->Save(1, items).ok());
  EXPECT_EQ(manager->Save(2, JsonSave(StateOf(1))).status().message(),
            "Must provide `args` of type `Composite` when dealing with "
            "multiple checkpointable objects.");
  const auto all = manager->Restore(1);
  ASSERT_TRUE(all.ok()) << all.status().ToString();
  EXPECT_EQ(*JsonTextOf(*all->FindPath({"meta"})),
            R"({"epoch": 2, "note": "x"})");
  CompositeArgs one;
  one.items["state"] = std::make_shared<JsonRestore>();
  const auto some = manager->Restore(1, &one);
  ASSERT_TRUE(some.ok()) << some.status().ToString();
  EXPECT_EQ(some->FindPath({"meta"}), nullptr);
  fs::remove_all(root_);
  const auto single = Make(Options());
  ASSERT_TRUE(Save(*single, 1));
  EXPECT_EQ(single->Save(2, items).status().message(),
            "Cannot provide `args` of type `Composite` when dealing with a "
            "single, unnamed (default) checkpointable object.");
}

TEST_P(ManagerTest, SavesWhenPoliciesAndPreemptionSaySo) {
  CheckpointManagerOptions options = Options();
  options.save_interval_steps = 10;
  options.save_on_steps = {13};
  options.reached_preemption = [](int64_t step) { return step == 27; };
  const auto manager = Make(options);
  std::vector<int64_t> saved;
  for (int64_t step = 3; step < 32; ++step) {
    if (Save(*manager, step)) saved.push_back(step);
  }
  EXPECT_THAT(saved, ElementsAre(3, 10, 13, 20, 27, 30));
  ASSERT_TRUE(manager->Close().ok());
  options.should_save_fn = [](int64_t step, std::optional<int64_t> latest) {
    return step > latest.value_or(0) + 4;
  };
  const auto other = Make(options);
  EXPECT_FALSE(*other->ShouldSave(34));
  EXPECT_TRUE(*other->ShouldSave(35));
}

TEST_P(ManagerTest, AFailedSaveCostsNoStep) {
  CheckpointManagerOptions options = Options();
  options.max_to_keep = 1;
  const auto manager = Make(options);
  EXPECT_TRUE(Save(*manager, 1));
  ASSERT_TRUE(manager->WaitUntilFinished().ok());
  // Nothing can be written below a path that is a file.
  WriteTestFile(root_ + "/2.orbax-checkpoint-tmp", "in the way");
  const auto saved = manager->Save(2, JsonSave(StateOf(2)));
  const Status finished = manager->WaitUntilFinished();
  EXPECT_FALSE(saved.ok() && finished.ok());
  EXPECT_TRUE(manager->WaitUntilFinished().ok());  // reported once
  EXPECT_THAT(manager->AllSteps(), ElementsAre(1));
  EXPECT_TRUE(manager->Restore(std::nullopt).ok());
  EXPECT_FALSE(manager->IsSavingInProgress());
  EXPECT_TRUE(Save(*manager, 3));
}

TEST_P(ManagerTest, MarkerFilesTellWhatIsCommitted) {
  CheckpointManagerOptions options = Options();
  options.committed_by.mode = CommitMode::kMarkerFile;
  const auto manager = Make(options);
  EXPECT_TRUE(Save(*manager, 1));
  ASSERT_TRUE(manager->WaitUntilFinished().ok());
  EXPECT_TRUE(fs::exists(root_ + "/1/commit_success.txt"));
  WriteTestFile(root_ + "/2/_CHECKPOINT_METADATA", "{}");
  ASSERT_TRUE(manager->Reload().ok());
  EXPECT_THAT(manager->AllSteps(), ElementsAre(1));
}

INSTANTIATE_TEST_SUITE_P(SyncAndAsync, ManagerTest, ::testing::Bool());

TEST(ManagerOptions, RefuseWhatOrbaxRefuses) {
  ScratchDirectory scratch;
  const auto message = [&](CheckpointManagerOptions options) {
    const auto made = CheckpointManager::Make(scratch.path(), options);
    return std::string(made.ok() ? "" : made.status().message());
  };
  EXPECT_EQ(message({}), "");
  EXPECT_EQ(message({.max_to_keep = -1}),
            "Setting of `max_to_keep` must be None or non-negative.");
  EXPECT_EQ(message({.best_mode = "best"}),
            "`CheckpointManagerOptions.best_mode` must be one of None, 'min' "
            "or 'max'. Got best.");
  EXPECT_THAT(message({.max_to_keep = 1, .preservation_policy = PreserveAll{}}),
              HasSubstr("are mutually exclusive - do not use together."));
  EXPECT_THAT(message({.todelete_subdir = "a", .todelete_full_path = "b"}),
              HasSubstr("both cannot be set togther"));
  EXPECT_THAT(message({.keep_period = 0}), HasSubstr("must not be 0."));
  CheckpointManagerOptions broadcast;
  broadcast.single_host_load_and_broadcast = true;
  broadcast.step_name_format = StandardNameFormat();
  EXPECT_THAT(message(broadcast), HasSubstr("requires `step_name_format."
                                            "single_host_load_and_broadcast`"));
}

TEST(StepRemoverTest, RemovesWithoutAThreadOfItsOwn) {
  if (!ThreadShortage::kIsPossible) GTEST_SKIP() << "clang's sanitizer";
  ThreadShortage shortage(0);
  ScratchDirectory scratch;
  WriteTestFile(scratch / "a/file", "x");
  StepRemover remover(2);
  remover.Run([&] {
    remover.Remove(scratch / "a");
    return Status();
  });
  EXPECT_FALSE(fs::exists(scratch / "a"));
  remover.Drain();
  remover.Finish();
  EXPECT_TRUE(remover.TakeError().ok());
  EXPECT_GE(shortage.refused_count(), 1);
}

TEST(StepRemoverTest, DoesWhatJobsAddWhileItFinishes) {
  ScratchDirectory scratch;
  WriteTestFile(scratch / "a/file", "x");
  StepRemover remover(2);
  remover.Run([&] {
    remover.Remove(scratch / "a");
    return Status();
  });
  remover.Run([] { return UnavailableError("no"); });
  remover.Finish();
  EXPECT_FALSE(fs::exists(scratch / "a"));
  EXPECT_EQ(remover.TakeError().message(), "no");
  EXPECT_TRUE(remover.TakeError().ok());
}

// The ranks are threads. They have the same list, and delete each step once.
TEST(ManagerRanks, AgreeOnStepsAndDecisions) {
  ScratchDirectory scratch;
  const std::string root = scratch / "run";
  const auto transports = MakeThreadTransports(2);
  const auto decisions = MakeThreadTransports(2);
  std::vector<std::vector<int64_t>> seen(2);
  std::vector<Status> ends(2);
  const auto rank = [&](size_t r) -> Status {
    const auto group = MakeProcessGroup(transports[r]);
    const auto decision = MakeProcessGroup(decisions[r]);
    CheckpointManagerOptions options;
    options.max_to_keep = 2;
    options.multiprocessing_options.group = group.get();
    options.decision_group = decision.get();
    options.save_interval_steps = 100;
    // Only the other rank is notified.
    options.reached_preemption = [&](int64_t step) {
      return r == 1 && step % 2 == 1;
    };
    auto manager = CheckpointManager::Make(root, options);
    if (!manager.ok()) return manager.status();
    for (int64_t step = 1; step < 8; ++step) {
      const auto saved = (*manager)->Save(step, JsonSave(StateOf(step)));
      if (!saved.ok()) return saved.status();
    }
    seen[r] = (*manager)->AllSteps();
    return (*manager)->Close();
  };
  std::thread other([&] { ends[1] = rank(1); });
  ends[0] = rank(0);
  other.join();
  EXPECT_TRUE(ends[0].ok()) << ends[0].ToString();
  EXPECT_TRUE(ends[1].ok()) << ends[1].ToString();
  EXPECT_THAT(seen[0], ElementsAre(5, 7));
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_FALSE(fs::exists(root + "/3"));
  EXPECT_TRUE(fs::exists(root + "/5"));
}

}  // namespace
}  // namespace holdfast
