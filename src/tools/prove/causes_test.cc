#include "tools/prove/causes.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace holdfast {

using Kind = DiskChange::Kind;

namespace {

DiskChange Create(NodeId node, NodeId parent, const std::string& name) {
  return {.kind = Kind::kCreate, .node = node, .parent = parent, .name = name};
}
DiskChange Write(NodeId node, const std::string& data) {
  return {.kind = Kind::kWrite, .node = node, .data = data};
}
DiskChange Sync(NodeId node) { return {.kind = Kind::kSync, .node = node}; }

// Returns the record of saving step "1": a directory with a file, created under
// a temporary name.
DiskRecord OneStep() {
  return {{},
          {{.kind = Kind::kMakeDirectory,
            .node = 1,
            .parent = kRootNode,
            .name = "1.tmp"},
           Create(2, 1, "data"),
           Write(2, "text"),
           {.kind = Kind::kMove,
            .node = 1,
            .parent = kRootNode,
            .name = "1.tmp",
            .to_parent = kRootNode,
            .to_name = "1"}}};
}

// Judges a state: the step must exist after `saved` changes, and be intact if
// it exists.
std::vector<CrashFinding> Judge(const DiskState& state, size_t prefix,
                                size_t saved) {
  const Files files = state.List();
  std::vector<CrashFinding> findings;
  const auto data = files.find("1/data");
  if (!files.contains("1")) {
    if (prefix >= saved) findings.push_back({CrashProblem::kLost, "1", "gone"});
  } else if (data == files.end() || *data->second != "text") {
    findings.push_back({CrashProblem::kDamaged, "1", "torn"});
  }
  return findings;
}

// Returns the risks over all states, as "damaged file STEP/data; lost dir .; ".
// The save returns after the last change.
std::string RisksOf(const DiskRecord& record) {
  const size_t saved = record.changes.size();
  CauseFinder causes(record, [&](const DiskState& state, size_t prefix) {
    return Result(Judge(state, prefix, saved));
  });
  VisitCrashStates(
      record, {.seed_count = 100},
      [&](const CrashState& crash, const DiskModel& model) {
        const DiskState state = StateAfter(model, crash.loss, crash.seed);
        for (const auto& finding : Judge(state, crash.prefix, saved)) {
          EXPECT_TRUE(causes.Add(crash, model, finding).ok());
        }
      });
  std::vector<std::string> lines;
  for (const CrashRisk& risk : causes.Take()) {
    std::string line(CrashProblemName(risk.problem));
    for (const MissingSync& sync : risk.missing) {
      line += (sync.is_directory ? " dir " : " file ") + sync.path +
              (sync.comes_later ? " late" : "");
    }
    lines.push_back(line);
  }
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const std::string& line : lines) text += line + "; ";
  return text;
}

TEST(CauseFinder, NamesEveryMissingSync) {
  EXPECT_EQ(RisksOf(OneStep()),
            "damaged dir STEP; damaged file STEP/data; lost dir .; ");
}

TEST(CauseFinder, NamesTheOneThatIsMissing) {
  DiskRecord record = OneStep();
  record.changes.insert(record.changes.begin() + 3, {Sync(2), Sync(1)});
  EXPECT_EQ(RisksOf(record), "lost dir .; ");
  record.changes.push_back(Sync(kRootNode));
  EXPECT_EQ(RisksOf(record), "");
}

TEST(CauseFinder, KnowsSyncsThatComeTooLate) {
  DiskRecord record = OneStep();
  record.changes.insert(record.changes.begin() + 3, Sync(1));
  record.changes.push_back(Sync(2));
  record.changes.push_back(Sync(kRootNode));
  EXPECT_EQ(RisksOf(record), "damaged file STEP/data late; ");
}

TEST(CauseFinder, SaysWhereNoSyncHelps) {
  DiskRecord record = OneStep();
  record.changes = {record.changes[0], record.changes[3], record.changes[1],
                    record.changes[2]};
  EXPECT_NE(RisksOf(record).find("damaged; "), std::string::npos);
}

// A state that lacks two syncs does not count for a cause with a single one.
TEST(CauseFinder, CountsEachStateOnce) {
  DiskRecord record = OneStep();
  record.changes.push_back(Sync(kRootNode));
  const size_t end = record.changes.size();
  CauseFinder causes(record, [&](const DiskState& state, size_t prefix) {
    return Result(Judge(state, prefix, end));
  });
  DiskModel model(record.start);
  for (const DiskChange& change : record.changes) model.Step(change);
  for (const Loss loss : {Loss::kUnsynced, Loss::kData}) {
    const auto findings = Judge(StateAfter(model, loss, 0), end, end);
    ASSERT_EQ(findings.size(), 1u);
    ASSERT_TRUE(causes.Add({end, loss, 0}, model, findings[0]).ok());
  }
  const std::vector<CrashRisk> risks = causes.Take();
  ASSERT_EQ(risks.size(), 2u);
  for (const CrashRisk& risk : risks) {
    EXPECT_EQ(risk.missing.size(), 1u);
    EXPECT_EQ(risk.state_count, 1u);
  }
}

TEST(MomentText, NamesTheChange) {
  const DiskRecord record = OneStep();
  EXPECT_EQ(MomentText(record, 0, {}), "after 0 of 4 changes");
  EXPECT_EQ(MomentText(record, 3, {{2, "1/data"}}),
            "after 3 of 4 changes: write of 1/data");
  EXPECT_EQ(MomentText(record, 4, {}),
            "after 4 of 4 changes: rename of 1.tmp to 1");
}

}  // namespace
}  // namespace holdfast
