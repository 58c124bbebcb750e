// steps, prune, du and verify with the real library and real roots.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "holdfast/checkpoint.h"
#include "holdfast/pending_save.h"
#include "tests/cli/run_words.h"

namespace holdfast::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

constexpr uint64_t kHour = 3'600'000'000'000;

class StepVerbs : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  // Saves a step that is committed `hour` hours after the start of 1970.
  void Save(int64_t step, double loss, uint64_t hour) {
    PendingSaveOptions options;
    options.sync = false;
    options.now_ns = [=] { return hour * kHour; };
    auto pending =
        PendingSave::Begin(root_ + "/" + std::to_string(step), options);
    ASSERT_TRUE(pending.ok()) << pending.status().ToString();
    SaveOptions item;
    item.sync = false;
    const Tree state = Tree::Dict({{"epoch", step}});
    ASSERT_TRUE((*pending)->SaveItem("state", state, item).ok());
    const std::string number = std::isnan(loss) ? "NaN" : std::to_string(loss);
    ASSERT_TRUE(
        (*pending)
            ->WriteFile("metrics/metrics", R"({"loss": )" + number + "}")
            .ok());
    ASSERT_TRUE((*pending)->Commit({}).ok());
  }

  void SaveFive() {
    for (int64_t i = 1; i <= 5; ++i) {
      Save(i * 10, 6.0 - static_cast<double>(i), static_cast<uint64_t>(i));
    }
  }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(root_)) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  const std::string root_ =
      fs::canonical(::testing::TempDir()) / "steps_test_root";
};

TEST_F(StepVerbs, PruneTellsAndThenDoes) {
  SaveFive();
  const std::vector<std::string> words = {
      "prune",       root_, "--keep-latest", "1",   "--keep-every=20",
      "--keep-best", "1",   "--metric",      "loss"};
  const Ran told = RunWords(words);
  EXPECT_EQ(told.code, 0) << told.err;
  EXPECT_THAT(told.out, HasSubstr("METRIC  KEPT\n"));
  EXPECT_THAT(told.out, HasSubstr("  5.0  best 1\n"));
  EXPECT_THAT(told.out, HasSubstr("  3.0  no\n"));
  EXPECT_THAT(told.out, HasSubstr("  2.0  every 20\n"));
  EXPECT_THAT(told.out, HasSubstr("1 step, "));
  EXPECT_THAT(told.out, HasSubstr("would go into the trash"));
  EXPECT_EQ(Names().size(), 5u);
  std::vector<std::string> doing = words;
  doing.insert(doing.end(), {"--yes", "--mode=min", "--json"});
  const Ran done = RunWords(doing);
  EXPECT_EQ(done.code, 0) << done.err;
  const Json json = Json::parse(done.out);
  EXPECT_EQ(json["dry_run"], false);
  EXPECT_EQ(json["removed_count"], 2);
  EXPECT_GT(json["freed_bytes"], 0);
  EXPECT_EQ(json["steps"][4]["kept_by"], Json({"the latest 1", "best 1"}));
  EXPECT_THAT(Names(), ElementsAre(".holdfast_trash", "20", "40", "50"));
  EXPECT_EQ(RunWords({"prune", root_, "--undelete=30"}).out, root_ + "/30\n");
  EXPECT_EQ(RunWords({"verify", "-q", root_ + "/30"}).code, 0);
  EXPECT_THAT(RunWords({"prune", root_, "--empty-trash"}).out,
              HasSubstr("1 step, "));
  EXPECT_EQ(RunWords({"prune", root_, "--empty-trash", "-yq"}).code, 0);
  EXPECT_EQ(RunWords({"prune", root_, "--undelete=10"}).code, 3);
}

TEST_F(StepVerbs, PruneByTimeAndByName) {
  SaveFive();
  // All steps are from 1970, that is, older than a week; the newest is kept all
  // the same.
  const Ran old = RunWords({"prune", "--json", root_, "--keep-since", "1w"});
  EXPECT_EQ(Json::parse(old.out)["removed_count"], 4);
  EXPECT_EQ(Json::parse(old.out)["steps"][4]["kept_by"], Json({"the newest"}));
  const Ran spread = RunWords({"prune", "--json", root_, "--keep-interval=2h"});
  EXPECT_EQ(Json::parse(spread.out)["removed_count"], 2);
  const Ran named = RunWords(
      {"prune", "--json", root_, "--keep-steps=10,30", "--keep-steps=40"});
  EXPECT_EQ(Json::parse(named.out)["removed_count"], 1);
}

TEST_F(StepVerbs, NotANumberIsNeverTheBest) {
  Save(1, 3, 1);
  Save(2, NAN, 2);
  Save(3, 2, 3);
  Save(4, NAN, 4);
  for (const std::string mode : {"min", "max"}) {
    const Ran told = RunWords(
        {"prune", root_, "--keep-best=1", "--metric=loss", "--mode=" + mode});
    EXPECT_EQ(told.code, 0) << told.err;
    EXPECT_THAT(told.out, HasSubstr("a step whose loss is NaN counts as"));
    EXPECT_THAT(told.out, HasSubstr("NaN  no\n"));
    EXPECT_THAT(told.out,
                HasSubstr(mode == "min" ? "2.0  best 1\n" : "3.0  best 1\n"));
    EXPECT_THAT(told.out, Not(HasSubstr("NaN  best")));
  }
}

TEST_F(StepVerbs, PruneRefusals) {
  SaveFive();
  const Ran nothing = RunWords({"prune", root_});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("nothing says what to keep"));
  EXPECT_EQ(RunWords({"prune", root_, "--keep-best=1"}).code, 2);
  EXPECT_EQ(RunWords({"prune", root_, "--keep-latest=0"}).code, 2);
  EXPECT_EQ(RunWords({"prune", root_, "--keep-since=soon"}).code, 2);
  EXPECT_EQ(RunWords({"prune", root_, "--keep-steps=1,x"}).code, 2);
  EXPECT_EQ(RunWords({"prune", root_, "--keep-latest=1", "--empty-trash"}).code,
            2);
  EXPECT_EQ(RunWords({"prune", root_ + "/none", "--keep-latest=1"}).code, 3);
  EXPECT_EQ(RunWords({"prune", root_ + "/10", "--keep-latest=1"}).code, 3);
  EXPECT_EQ(Names().size(), 5u);
}

TEST_F(StepVerbs, DuCountsStepsItemsAndSharedFiles) {
  Save(1, 1, 1);
  fs::create_directories(root_ + "/2/state");
  fs::create_hard_link(root_ + "/1/state/_METADATA",
                       root_ + "/2/state/_METADATA");
  const Ran ran = RunWords({"du", root_});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("1  state    metadata"));
  EXPECT_THAT(ran.out, HasSubstr("1  metrics  data"));
  EXPECT_THAT(ran.out, HasSubstr("that other names share)\n"));
  const Json json = Json::parse(RunWords({"du", "--json", root_}).out);
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root_ + "/1")) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  EXPECT_EQ(json["total_bytes"], bytes);
  EXPECT_EQ(json["shared_bytes"], fs::file_size(root_ + "/1/state/_METADATA"));
  const Json one = Json::parse(RunWords({"du", "--json", root_ + "/1"}).out);
  EXPECT_EQ(one["total_bytes"], bytes);
  EXPECT_EQ(RunWords({"du", root_ + "/none"}).code, 3);
}

TEST_F(StepVerbs, StepsSayWhyNot) {
  Save(1, 1, 1);
  fs::create_directories(root_ + "/2.orbax-checkpoint-tmp");
  const Json json = Json::parse(RunWords({"steps", "--json", root_}).out);
  ASSERT_EQ(json["steps"].size(), 2u);
  EXPECT_EQ(json["steps"][0]["committed"], true);
  EXPECT_EQ(json["steps"][0]["metrics"]["loss"], 1.0);
  EXPECT_EQ(json["steps"][1]["committed"], false);
  EXPECT_THAT(json["steps"][1]["why_not"].get<std::string>(),
              HasSubstr("temporary directory"));
}

TEST_F(StepVerbs, StepsRefusesACheckpoint) {
  Save(1, 1, 1);
  for (const char* inside : {"/1", "/1/state"}) {
    const Ran ran = RunWords({"steps", root_ + inside});
    EXPECT_EQ(ran.code, 3);
    EXPECT_THAT(ran.err, HasSubstr("it is a checkpoint itself"));
  }
}

TEST_F(StepVerbs, VerifyFindsTheNewestSoundStep) {
  Save(1, 1, 1);
  Save(2, 1, 2);
  EXPECT_THAT(RunWords({"verify", root_}).out,
              HasSubstr("newest step that verifies: 2\n"));
  std::ofstream(root_ + "/2/state/_METADATA") << "{";
  const Ran ran = RunWords({"verify", root_});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out, HasSubstr("damaged: 2: "));
  EXPECT_THAT(ran.out, HasSubstr("newest step that verifies: 1\n"));
  std::ofstream(root_ + "/1/state/_METADATA") << "{";
  EXPECT_THAT(RunWords({"verify", "-q", root_}).out,
              HasSubstr("no step verifies\n"));
  EXPECT_THAT(RunWords({"verify", root_, "--step=1"}).out,
              Not(HasSubstr("newest")));
}

}  // namespace
}  // namespace holdfast::testing
