// Checks roots that Orbax's own managers wrote against their expected.json.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "holdfast/orbax/checkpoint_manager.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using GoldenJson = nlohmann::json;

constexpr const char* kGoldenRoots[] = {
    "mgr_composite",      "mgr_random_keys",         "mgr_best_dict",
    "mgr_standard_steps", "mgr_step_format",         "mgr_commit_file",
    "mgr_with_tmp_open",  "v1_training_checkpointer"};

// Returns the options with which a root was written. The metrics of these roots
// are a single number, or nested.
CheckpointManagerOptions WriterOptions(const GoldenJson& expected) {
  const GoldenJson& writer = expected["writer"]["options"];
  CheckpointManagerOptions options;
  options.read_only = true;
  if (writer.contains("step_prefix")) {
    options.step_prefix = writer["step_prefix"];
  }
  if (writer.contains("step_format_fixed_length")) {
    options.step_format_fixed_length = writer["step_format_fixed_length"];
  }
  if (writer.value("atomicity_mode", "") == "commit_file") {
    options.committed_by.mode = CommitMode::kMarkerFile;
  }
  if (expected.contains("manager") &&
      expected["manager"].contains("best_step")) {
    options.best_mode = writer.value("best_mode", "max");
    options.best_fn = [](const Metrics& metrics) {
      for (const char* name : {"loss", "score.0"}) {
        if (const auto value = metrics.Find(name)) return *value;
      }
      ADD_FAILURE() << metrics.json;
      return 0.0;
    };
  }
  return options;
}

class ManagerGoldenTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    scratch_ = new ScratchDirectory();
    std::string command = "tar -xJf " HOLDFAST_SOURCE_DIR
                          "/tests/golden/corpus/open.tar.xz -C " +
                          scratch_->path();
    for (const char* name : kGoldenRoots) {
      command += std::string(" open/") + name;
    }
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }
  static void TearDownTestSuite() { delete scratch_; }

  static inline ScratchDirectory* scratch_ = nullptr;
};

void CheckSteps(CheckpointManager& manager, const GoldenJson& expected) {
  std::vector<int64_t> steps;
  for (const GoldenJson& step : expected["steps"]) {
    steps.push_back(step["step"]);
    const auto metrics = manager.StepMetrics(steps.back());
    ASSERT_TRUE(metrics.ok()) << metrics.status().ToString();
    const GoldenJson& wanted = step["metrics"];
    EXPECT_EQ(metrics->has_value(), !wanted.is_null());
    if (*metrics) {
      EXPECT_EQ(GoldenJson::parse((*metrics)->json), wanted);
    }
  }
  EXPECT_EQ(manager.AllSteps(), steps);
  EXPECT_EQ(manager.LatestStep(), steps.back());
  if (!expected.contains("manager")) return;
  const GoldenJson& answers = expected["manager"];
  EXPECT_EQ(GoldenJson(manager.AllSteps()), answers["all_steps"]);
  EXPECT_EQ(*manager.LatestStep(), answers["latest_step"]);
  if (answers.contains("best_step")) {
    EXPECT_EQ(*manager.BestStep(), answers["best_step"]);
  }
}

TEST_F(ManagerGoldenTest, RootsOfOrbaxAnswerAsOrbaxDoes) {
  for (const std::string name : kGoldenRoots) {
    SCOPED_TRACE(name);
    const std::string root = *scratch_ / ("open/" + name);
    std::ifstream file(root + "/expected.json");
    const GoldenJson expected = GoldenJson::parse(file);
    const auto manager = CheckpointManager::Make(
        root + "/" + expected["root"].get<std::string>(),
        WriterOptions(expected));
    ASSERT_TRUE(manager.ok()) << manager.status().ToString();
    CheckSteps(**manager, expected);
    if (expected.contains("root_metadata")) {
      EXPECT_EQ(GoldenJson::parse(*(*manager)->RootMetadata()),
                expected["root_metadata"]["_ROOT_METADATA"]["custom_metadata"]);
    }
    const auto metadata = (*manager)->Metadata(*(*manager)->LatestStep());
    EXPECT_TRUE(metadata.ok()) << metadata.status().ToString();
  }
}

}  // namespace
}  // namespace holdfast
