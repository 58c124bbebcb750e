// Compared with the real Orbax: tests/golden/manager.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/steps/golden_for_test.h"
#include "holdfast/steps/preservation_policy.h"
#include "holdfast/steps/save_decision_policy.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

StepRecord RecordOfRow(const Json& row) {
  StepRecord record{row[0], row[1].get<int64_t>() * 1000, std::nullopt};
  if (!row[2].is_null()) {
    record.metrics = MetricsOfJson(R"({"loss": )" + row[2].dump() + "}");
  }
  return record;
}

std::vector<StepRecord> RecordsOf(const Json& rows) {
  std::vector<StepRecord> records;
  for (const Json& row : rows) records.push_back(RecordOfRow(row));
  return records;
}

std::optional<int64_t> MaybeInt(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return json.get<int64_t>();
}

PreservationPolicy PreservationOf(const Json& json) {
  const std::string name = json[0];
  const Json& args = json[1];
  if (name == "PreserveAll") return PreserveAll{};
  if (name == "LatestN") return LatestN{MaybeInt(args["n"])};
  if (name == "EveryNSeconds") return EveryNSeconds{args["interval_secs"]};
  if (name == "EveryNSteps") {
    return EveryNSteps{args["interval_steps"], args["exact_interval"],
                       MaybeInt(args["max_to_keep"])};
  }
  if (name == "EveryNStepsClosest") {
    return EveryNStepsClosest{args["interval_steps"],
                              MaybeInt(args["max_to_keep"])};
  }
  if (name == "CustomSteps") return CustomSteps{args["steps"]};
  if (name == "LatestDuration") return LatestDuration{args["seconds"]};
  if (name == "BestN") {
    return BestN{MetricNamed("loss"), args["reverse"], MaybeInt(args["n"]),
                 args["keep_checkpoints_without_metrics"]};
  }
  EXPECT_EQ(name, "AnyPreservationPolicy");
  AnyPreservationPolicy any;
  for (const Json& child : args["policies"]) {
    any.policies.push_back(PreservationOf(child));
  }
  return any;
}

SaveDecisionPolicy SaveOf(const Json& json) {
  const std::string name = json[0];
  const Json& args = json[1];
  if (name == "FixedIntervalPolicy") {
    return FixedIntervalPolicy{args["interval"]};
  }
  if (name == "SpecificStepsPolicy") return SpecificStepsPolicy{args["steps"]};
  if (name == "ContinuousCheckpointingPolicy") {
    return ContinuousCheckpointingPolicy{
        MaybeInt(args["minimum_interval_secs"])};
  }
  if (name == "PreemptionCheckpointingPolicy") {
    return PreemptionCheckpointingPolicy{};
  }
  if (name == "InitialSavePolicy") return InitialSavePolicy{};
  EXPECT_EQ(name, "AnySavePolicy");
  AnySavePolicy any;
  for (const Json& child : args["policies"]) {
    any.policies.push_back(SaveOf(child));
  }
  return any;
}

TEST(PoliciesGolden, PreserveWhatOrbaxPreserves) {
  const Json golden = ManagerGolden("policies.json");
  const PreservationContext context{golden["now_us"].get<int64_t>() * 1000};
  ASSERT_GE(golden["preservation"].size(), 300u);
  for (const Json& json : golden["preservation"]) {
    SCOPED_TRACE(json.dump());
    const auto keep = ShouldPreserve(PreservationOf(json["policy"]),
                                     RecordsOf(json["history"]), context);
    if (json.contains("error")) {
      EXPECT_EQ(keep.status().message(), json["error"].get<std::string>());
      continue;
    }
    ASSERT_TRUE(keep.ok()) << keep.status().ToString();
    EXPECT_EQ(*keep, json["keep"].get<std::vector<bool>>());
  }
}

TEST(PoliciesGolden, SaveWhatOrbaxSaves) {
  const Json golden = ManagerGolden("policies.json");
  ASSERT_GE(golden["save"].size(), 200u);
  for (const Json& json : golden["save"]) {
    SCOPED_TRACE(json.dump());
    const DecisionContext context{json["is_saving_in_progress"],
                                  json["reached_preemption"]};
    const auto save =
        ShouldSave(SaveOf(json["policy"]), RecordOfRow(json["step"]),
                   RecordsOf(json["history"]), context);
    ASSERT_TRUE(save.ok()) << save.status().ToString();
    EXPECT_EQ(*save, json["save"].get<bool>());
  }
}

TEST(Policies, NotANumberIsWorstEitherWay) {
  std::vector<StepRecord> steps;
  for (const char* loss : {"NaN", "1.0", "Infinity", "-Infinity", "NaN"}) {
    steps.push_back({static_cast<int64_t>(steps.size()), 0,
                     MetricsOfJson(std::string(R"({"loss": )") + loss + "}")});
  }
  EXPECT_THAT(SortedByMetric(MetricNamed("loss"), false, steps),
              ElementsAre(0, 4, 3, 1, 2));
  EXPECT_THAT(SortedByMetric(MetricNamed("loss"), true, steps),
              ElementsAre(0, 4, 2, 1, 3));
}

TEST(Policies, CustomOnesAreHeardAndChecked) {
  const std::vector<StepRecord> steps = {{1, 0, {}}, {2, 0, {}}};
  const auto odd = [](std::span<const StepRecord> all,
                      const PreservationContext&) {
    std::vector<bool> keep;
    for (const StepRecord& step : all) keep.push_back(step.step % 2 == 1);
    return keep;
  };
  EXPECT_THAT(*ShouldPreserve(CustomPreservationPolicy{odd}, steps, {}),
              ElementsAre(true, false));
  const auto short_answer = [](std::span<const StepRecord>,
                               const PreservationContext&) {
    return std::vector<bool>{true};
  };
  EXPECT_THAT(std::string(ShouldPreserve(CustomPreservationPolicy{short_answer},
                                         steps, {})
                              .status()
                              .message()),
              HasSubstr("got 1 answers for 2 steps"));
  const CustomSavePolicy late{[](const StepRecord& step,
                                 std::span<const StepRecord> previous,
                                 const DecisionContext&) {
    return step.step > previous.back().step + 5;
  }};
  EXPECT_TRUE(*ShouldSave(late, {8, 0, {}}, steps, {}));
  EXPECT_FALSE(*ShouldSave(late, {7, 0, {}}, steps, {}));
  EXPECT_EQ(
      ShouldSave(FixedIntervalPolicy{0}, {1, 0, {}}, {}, {}).status().code(),
      StatusCode::kInvalidArgument);
}

TEST(Metrics, NumbersOfNestedDictsByTheirPath) {
  const Metrics metrics =
      MetricsOfJson(R"({"a": {"b": 2, "ok": true}, "t": "x", "l": [5]})");
  EXPECT_EQ(metrics.Find("a.b"), 2.0);
  EXPECT_EQ(metrics.Find("a.ok"), 1.0);
  EXPECT_EQ(metrics.Find("l.0"), 5.0);
  EXPECT_FALSE(metrics.Find("t"));
  EXPECT_TRUE(MetricsOfJson("{broken").values.empty());
  EXPECT_TRUE(std::isnan(MetricNamed("loss")(metrics)));
}

}  // namespace
}  // namespace holdfast
