// Compared with the real Orbax: tests/golden/manager/names.json.
#include "holdfast/steps/step_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "engine/steps/golden_for_test.h"
#include "engine/steps/steps_test_util.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::vector<FoundStep> Sorted(std::vector<FoundStep> steps) {
  std::sort(steps.begin(), steps.end(),
            [](const FoundStep& a, const FoundStep& b) {
              return std::pair(a.step, a.name) < std::pair(b.step, b.name);
            });
  return steps;
}

StandardNameOptions NameOptionsOf(const Json& arguments) {
  StandardNameOptions options;
  if (arguments.contains("step_prefix")) {
    options.step_prefix = arguments["step_prefix"];
  }
  if (arguments.contains("step_format_fixed_length")) {
    options.step_format_fixed_length = arguments["step_format_fixed_length"];
  }
  return options;
}

class StepNamesGolden : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const std::string name : golden_["directories"]) {
      fs::create_directory(scratch_ / name);
    }
    for (const std::string name : golden_["files"]) {
      WriteTestFile(scratch_ / name, "a file");
    }
  }

  const Json golden_ = ManagerGolden("names.json");
  ScratchDirectory scratch_;
};

TEST_F(StepNamesGolden, FormatsNameAndFindAsOrbaxDoes) {
  for (const Json& json : golden_["formats"]) {
    SCOPED_TRACE(json.dump());
    const auto format = StandardNameFormat(NameOptionsOf(json["arguments"]));
    EXPECT_EQ(format->ToString(), json["text"].get<std::string>());
    for (size_t i = 0; i < json["steps"].size(); ++i) {
      EXPECT_EQ(format->BuildName(json["steps"][i]),
                json["names"][i].get<std::string>());
    }
    std::vector<FoundStep> wanted;
    for (const Json& row : json["committed"]) {
      wanted.push_back({row[0], row[1]});
    }
    EXPECT_EQ(Sorted(*format->FindAll(scratch_.path())), Sorted(wanted));
    for (const FoundStep& step : wanted) {
      EXPECT_EQ(format->StepOf(step.name), step.step);
    }
  }
}

TEST_F(StepNamesGolden, NamesOfAnyFormatAsOrbaxReadsThem) {
  const Json& names = golden_["directories"];
  for (size_t i = 0; i < names.size(); ++i) {
    const auto step = StepFromCheckpointName(names[i].get<std::string>());
    const Json& wanted = golden_["step_from_checkpoint_name"][i];
    EXPECT_EQ(step.ok(), !wanted.is_null()) << names[i];
    EXPECT_EQ(step.ok() ? Json(*step) : Json(), wanted) << names[i];
  }
  EXPECT_EQ(StepFromCheckpointName("x").status().message(),
            "Unrecognized name format: x.");
  EXPECT_EQ(Json(*TemporaryCheckpointNames(scratch_.path())),
            golden_["tmp_checkpoints"]);
}

TEST(StepNames, FindsOneStepOrSaysWhyNot) {
  ScratchDirectory scratch;
  fs::create_directories(scratch / "a_5");
  fs::create_directories(scratch / "a_6.orbax-checkpoint-tmp");
  const auto format = StandardNameFormat({.step_prefix = "a"});
  EXPECT_EQ(format->FindStep(scratch.path(), 5)->name, "a_5");
  EXPECT_EQ(format->FindStep(scratch.path(), 6).status().message(),
            "No step path found with name=a_6, "
            "NameFormat=StandardNameFormat(\"a_1234\") for step=6 under " +
                scratch.path() + ".");
  EXPECT_EQ(format->FindStep("/nowhere", 6).status().message(),
            "Invalid base_path: /nowhere does not exist or is not a "
            "directory.");
  EXPECT_EQ(*FindStepPath(scratch.path(), *format, 6, true),
            scratch / "a_6.orbax-checkpoint-tmp");
  EXPECT_THAT(*format->FindAll("/nowhere"), IsEmpty());
  EXPECT_EQ((*LatestStepIn(scratch.path(), *format))->step, 5);
  EXPECT_EQ(StepOfCheckpointPath(scratch / "a_5", *format)->step, 5);
  EXPECT_FALSE(StepOfCheckpointPath(scratch / "b_5", *format).ok());
}

TEST(StepNames, CompositeReadsSeveralAndWritesOne) {
  ScratchDirectory scratch;
  for (const char* name : {"3", "s_3", "s_4"}) {
    fs::create_directories(scratch / name);
  }
  const auto plain = StandardNameFormat();
  const auto named = StandardNameFormat({.step_prefix = "s"});
  const auto both = CompositeNameFormat(named, {plain, named});
  ASSERT_TRUE(both.ok());
  EXPECT_EQ((*both)->BuildName(9), "s_9");
  EXPECT_THAT(*(*both)->FindAll(scratch.path()),
              UnorderedElementsAre(FoundStep{3, "3"}, FoundStep{3, "s_3"},
                                   FoundStep{4, "s_4"}));
  EXPECT_EQ((*both)->FindStep(scratch.path(), 3)->name, "3");
  EXPECT_EQ((*both)->FindStep(scratch.path(), 4)->name, "s_4");
  EXPECT_FALSE((*both)->FindStep(scratch.path(), 5).ok());
  EXPECT_EQ(CompositeNameFormat(named, {plain}).status().message(),
            "write_name_format: StandardNameFormat(\"s_1234\") must be present "
            "in read_name_formats: [StandardNameFormat(\"1234\")].");
}

TEST(StepNames, AMarkerFileDecidesWhereSavesCommitByIt) {
  ScratchDirectory scratch;
  fs::create_directories(scratch / "1");
  WriteTestFile(scratch / "2/commit_success.txt", "");
  const auto marked =
      StandardNameFormat({.committed_by = {CommitMode::kMarkerFile, false}});
  EXPECT_THAT(*marked->FindAll(scratch.path()), ElementsAre(FoundStep{2, "2"}));
  EXPECT_TRUE(IsPathTemporary(scratch / "1", marked->committed_by()));
  const auto legacy =
      StandardNameFormat({.committed_by = {CommitMode::kMarkerFile, true}});
  EXPECT_EQ(legacy->FindAll(scratch.path())->size(), 2u);
}

TEST(StepNames, OneRankLooksForAll) {
  ScratchDirectory scratch;
  fs::create_directories(scratch / "007");
  const auto format = SingleHostLoadAndBroadcastNameFormat(
      *StandardNameFormat({.step_format_fixed_length = 3}));
  ASSERT_TRUE(format.ok());
  const auto transports = MakeThreadTransports(2);
  // Rank 1 sees another directory, which has no steps.
  std::vector<FoundStep> seen;
  std::thread other([&] {
    const auto group = MakeProcessGroup(transports[1]);
    const auto found = (*format)->FindAll("/nowhere", group.get());
    if (found.ok()) seen = *found;
  });
  const auto group = MakeProcessGroup(transports[0]);
  const auto found = (*format)->FindAll(scratch.path(), group.get());
  other.join();
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_THAT(*found, ElementsAre(FoundStep{7, "007"}));
  EXPECT_EQ(seen, *found);
}

}  // namespace
}  // namespace holdfast
