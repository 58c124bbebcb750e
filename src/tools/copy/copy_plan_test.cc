#include "tools/copy/copy_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TreeCopyPlan PlanOf(std::vector<std::string> names,
                    std::string_view place_name = "place") {
  std::sort(names.begin(), names.end());
  std::vector<ListedFile> files;
  for (std::string& name : names) files.push_back({std::move(name), 1, ""});
  return PlanTreeCopy(files, place_name);
}

TEST(CopyPlanTest, AStepComesInThreeWaves) {
  const TreeCopyPlan plan =
      PlanOf({"_CHECKPOINT_METADATA", "_HOLDFAST_DIGESTS", "commit_success.txt",
              "state/_METADATA", "state/d/1a", "state/manifest.ocdbt",
              "state/ocdbt.process_0/d/2b"});
  ASSERT_EQ(plan.units.size(), 1u);
  const CopyUnit& unit = plan.units[0];
  EXPECT_EQ(unit.directory, "");
  EXPECT_TRUE(unit.is_orbax);
  EXPECT_THAT(unit.data,
              ElementsAre("state/d/1a", "state/ocdbt.process_0/d/2b"));
  EXPECT_THAT(unit.heads,
              ElementsAre("_CHECKPOINT_METADATA", "_HOLDFAST_DIGESTS",
                          "state/_METADATA", "state/manifest.ocdbt"));
  EXPECT_THAT(unit.last, ElementsAre("commit_success.txt"));
  EXPECT_THAT(plan.loose, IsEmpty());
}

TEST(CopyPlanTest, ARootHasAUnitAStepAndLooseFiles) {
  const TreeCopyPlan plan = PlanOf(
      {"10/_CHECKPOINT_METADATA", "10/default/_METADATA", "2/_METADATA",
       "metadata/_ROOT_METADATA", "notes.txt", "2/d/x", "10/default/d/y"});
  ASSERT_EQ(plan.units.size(), 2u);
  EXPECT_EQ(plan.units[0].directory, "10");
  EXPECT_THAT(plan.units[0].data, ElementsAre("default/d/y"));
  EXPECT_EQ(plan.units[1].directory, "2");
  EXPECT_THAT(plan.units[1].last, ElementsAre("_METADATA"));
  EXPECT_THAT(plan.loose, ElementsAre("metadata/_ROOT_METADATA", "notes.txt"));
}

// Steps of old releases are recognized only by their items.
TEST(CopyPlanTest, AnOldStepIsOneUnitWithAllItsItems) {
  const TreeCopyPlan plan =
      PlanOf({"7/default/_METADATA", "7/default/d/x", "7/metrics/metrics"});
  ASSERT_EQ(plan.units.size(), 1u);
  EXPECT_EQ(plan.units[0].directory, "7");
  EXPECT_THAT(plan.units[0].data,
              ElementsAre("default/d/x", "metrics/metrics"));
  const TreeCopyPlan one =
      PlanOf({"default/checkpoint", "metrics/metrics"}, "step_7");
  ASSERT_EQ(one.units.size(), 1u);
  EXPECT_EQ(one.units[0].directory, "");
  EXPECT_THAT(one.loose, IsEmpty());
}

TEST(CopyPlanTest, WhatIsUnfinishedByNameStaysBehind) {
  const TreeCopyPlan plan =
      PlanOf({"7/_METADATA", "8.orbax-checkpoint-tmp/_METADATA",
              "8.orbax-checkpoint-tmp/d/x", "9.holdfast-copy-tmp/_METADATA",
              "6.holdfast-replaced/_METADATA", "5.holdfast-convert-tmp/journal",
              "7/_HOLDFAST_COPY", "7/_HOLDFAST_SAVE"});
  ASSERT_EQ(plan.units.size(), 1u);
  EXPECT_EQ(plan.units[0].directory, "7");
  EXPECT_THAT(plan.units[0].data, IsEmpty());
  EXPECT_THAT(plan.unfinished,
              ElementsAre("5.holdfast-convert-tmp", "6.holdfast-replaced",
                          "8.orbax-checkpoint-tmp", "9.holdfast-copy-tmp"));
}

TEST(CopyPlanTest, ForeignFormatsEndWithWhatTheyAreKnownBy) {
  const TreeCopyPlan plan =
      PlanOf({"iter_0000005/metadata.json", "iter_0000005/.metadata",
              "iter_0000005/__0_0.distcp", "iter_0000005/common.pt",
              "latest_checkpointed_iteration.txt"});
  ASSERT_EQ(plan.units.size(), 1u);
  EXPECT_FALSE(plan.units[0].is_orbax);
  EXPECT_THAT(plan.units[0].data, ElementsAre("__0_0.distcp"));
  EXPECT_THAT(plan.units[0].last, ElementsAre("metadata.json"));
  EXPECT_THAT(plan.pointers, ElementsAre("latest_checkpointed_iteration.txt"));

  const TreeCopyPlan shards =
      PlanOf({"model-1.safetensors", "model.safetensors.index.json"});
  ASSERT_EQ(shards.units.size(), 1u);
  EXPECT_THAT(shards.units[0].last,
              ElementsAre("model.safetensors.index.json"));
}

TEST(CopyPlanTest, PlainFilesAreLoose) {
  EXPECT_THAT(PlanOf({"a", "b/c"}).loose, ElementsAre("a", "b/c"));
  EXPECT_THAT(PlanOf({""}).loose, ElementsAre(""));
}

}  // namespace
}  // namespace holdfast
