#include "tools/prove/saved.h"

#include <gtest/gtest.h>

namespace holdfast {

using Kind = DiskChange::Kind;

namespace {

Content Sound(const std::string& digest) { return {digest, ""}; }
Content Broken() { return {"", "DATA_LOSS"}; }

DiskChange Make(NodeId node, const std::string& name) {
  return {
      .kind = Kind::kCreate, .node = node, .parent = kRootNode, .name = name};
}
DiskChange WriteTo(NodeId node) {
  return {.kind = Kind::kWrite, .node = node, .data = "x"};
}

// The record of step a, then step b. Each is listed once it has been written.
struct TwoSteps {
  DiskRecord record{{}, {Make(1, "a"), WriteTo(1), Make(2, "b"), WriteTo(2)}};
  std::vector<Listing> listed = {{},
                                 {},
                                 {{"a", Sound("A")}},
                                 {{"a", Sound("A")}},
                                 {{"a", Sound("A")}, {"b", Sound("B")}}};

  std::vector<CrashFinding> Judge(const Listing& found, size_t prefix) const {
    return JudgeListing(found, prefix, SavePoints(record, {}, listed), listed);
  }
};

TEST(SavePoints, AStepIsSavedWhenTheNextBegins) {
  const TwoSteps run;
  const auto points = SavePoints(run.record, {}, run.listed);
  ASSERT_EQ(points.size(), 3u);
  EXPECT_EQ(points[0].prefix, 0u);
  EXPECT_TRUE(points[0].saved.empty());
  EXPECT_EQ(points[1].prefix, 2u);  // before b is created
  EXPECT_EQ(points[1].saved, run.listed[2]);
  EXPECT_EQ(points[2].prefix, 4u);
  EXPECT_EQ(points[2].saved, run.listed[4]);
}

TEST(SavePoints, AMarkIsOneToo) {
  TwoSteps run;
  const auto points = SavePoints(run.record, {{3, "saved"}}, run.listed);
  ASSERT_EQ(points.size(), 4u);
  EXPECT_EQ(points[2].prefix, 3u);
}

TEST(SavePoints, WhatWasBegunBeforeProvesNothing) {
  TwoSteps run;
  run.record.changes = {Make(1, "a"), Make(2, "b"), WriteTo(1), WriteTo(2)};
  run.listed[2] = {};
  EXPECT_EQ(SavePoints(run.record, {}, run.listed).size(), 2u);
}

TEST(JudgeListing, WhatIsBeingSavedMayBeThereOrNot) {
  const TwoSteps run;
  EXPECT_TRUE(run.Judge({}, 1).empty());
  EXPECT_TRUE(run.Judge({{"a", Sound("A")}}, 1).empty());
  EXPECT_TRUE(run.Judge({{"a", Sound("A")}, {"b", Sound("B")}}, 3).empty());
}

TEST(JudgeListing, WhatWasSavedMustStay) {
  const TwoSteps run;
  const auto findings = run.Judge({}, 2);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].problem, CrashProblem::kLost);
  EXPECT_EQ(findings[0].checkpoint, "a");
}

TEST(JudgeListing, WhatIsListedMustBeWholeAndRight) {
  const TwoSteps run;
  const auto findings =
      run.Judge({{"a", Broken()}, {"b", Sound("A")}, {"c", Broken()}}, 4);
  ASSERT_EQ(findings.size(), 3u);
  EXPECT_EQ(findings[0].problem, CrashProblem::kDamaged);
  EXPECT_EQ(findings[1].problem, CrashProblem::kWrong);
  EXPECT_EQ(findings[2].checkpoint, "c");
}

TEST(JudgeListing, WhatTheRunRemovesMayBeThereOrNot) {
  TwoSteps run;
  run.listed[3] = {};
  run.listed[4] = {{"b", Sound("B")}};
  EXPECT_TRUE(run.Judge({}, 2).empty());
  EXPECT_TRUE(run.Judge({{"a", Sound("A")}}, 3).empty());
  EXPECT_EQ(run.Judge({{"a", Sound("A")}, {"b", Sound("B")}}, 4).size(), 1u);
}

TEST(JudgeListing, WhatCameAndWentIsKnown) {
  TwoSteps run;
  run.listed[1] = {{"c", Sound("C")}};
  EXPECT_TRUE(run.Judge({{"c", Sound("C")}}, 1).empty());
  EXPECT_EQ(run.Judge({{"c", Sound("A")}}, 1).size(), 1u);
}

}  // namespace
}  // namespace holdfast
