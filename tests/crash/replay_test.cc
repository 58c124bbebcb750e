// Power failures at every moment of a save or delete, with everything that the
// disk may lose: the recorded changes are replayed up to each change, with each
// kind of loss, and the engine opens the files that remain.
//
// HOLDFAST_CRASH_MIXES: the number of additional random mixes of losses (0 by
// default); HOLDFAST_SEED: a seed, to choose other mixes.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "crash/judge.h"
#include "crash/recorder.h"
#include "crash/scenarios.h"
#include "tools/powerloss/crash_states.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

// The recorded changes, and the files that actually exist afterwards.
struct Recorded {
  DiskRecord record;
  Files files;
};

Recorded RecordScenario(const Scenario& scenario, const std::string& root) {
  EXPECT_TRUE(scenario.prepare(root).ok());
  Recorder recorder(root);
  Status status;
  {
    const ScopedCallHook hook(&recorder);
    status = scenario.act(root);
  }
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(JudgeRoot(scenario, root, Moment::kCompleted), "");
  return {recorder.record(), ReadFiles(root)};
}

Recorded RecordScenario(const Scenario& scenario) {
  const MemoryDirectory directory;
  return RecordScenario(scenario, directory.path());
}

Moment MomentOf(const CrashState& crash, const DiskRecord& record) {
  if (crash.prefix == 0) return Moment::kBefore;
  return crash.prefix == record.changes.size() ? Moment::kCompleted
                                               : Moment::kUnderway;
}

struct Outcome {
  uint64_t state_count = 0;
  uint64_t violation_count = 0;
  std::string first_violation;
};

uint64_t NumberFrom(const char* variable) {
  const char* wanted = std::getenv(variable);
  return wanted == nullptr ? 0 : std::strtoull(wanted, nullptr, 10);
}

using Visit = std::function<void(const CrashState&, const DiskModel&)>;

// Visits `count` states with a random prefix and random losses.
uint64_t VisitRandomStates(const DiskRecord& record, uint64_t first_seed,
                           uint64_t count, const Visit& visit) {
  // Prefixes in order, so that the model processes the record only once.
  const uint64_t prefix_count = record.changes.size() + 1;
  DiskModel model(record.start);
  uint64_t seed = first_seed;
  for (size_t prefix = 0; prefix < prefix_count; ++prefix) {
    if (prefix > 0) model.Step(record.changes[prefix - 1]);
    const uint64_t end = first_seed + count * (prefix + 1) / prefix_count;
    for (; seed < end; ++seed) {
      visit({prefix, Loss::kSome, seed}, model);
    }
  }
  return count;
}

Outcome ReplayAll(const Scenario& scenario, const DiskRecord& record,
                  uint64_t seed_count, uint64_t mix_count) {
  StateJudge judge(scenario);
  Outcome outcome;
  const Visit visit = [&](const CrashState& crash, const DiskModel& model) {
    const DiskState state = StateAfter(model, crash.loss, crash.seed);
    const std::string wrong =
        judge.Check(state.List(), MomentOf(crash, record));
    if (wrong.empty()) return;
    if (outcome.violation_count++ > 0) return;
    outcome.first_violation = Describe(crash, record) + ": " + wrong;
  };
  outcome.state_count =
      VisitCrashStates(record, {.seed_count = seed_count}, visit);
  const uint64_t first_seed = 1'000'000 + (NumberFrom("HOLDFAST_SEED") << 32);
  outcome.state_count +=
      VisitRandomStates(record, first_seed, mix_count, visit);
  std::printf("%-18s %5zu changes %8lu states %5lu loads %lu violations\n",
              scenario.name.c_str(), record.changes.size(),
              static_cast<unsigned long>(outcome.state_count),
              static_cast<unsigned long>(judge.load_count()),
              static_cast<unsigned long>(outcome.violation_count));
  return outcome;
}

uint64_t MixCount() { return NumberFrom("HOLDFAST_CRASH_MIXES"); }

std::string NameOf(const testing::TestParamInfo<Scenario>& info) {
  return info.param.name;
}

// Runs the scenario again on the disk that each prefix of its changes has left,
// with a few kinds of loss.
void ExpectTheNextRunGoesOn(const Scenario& scenario,
                            const DiskRecord& record) {
  DiskMirror mirror;
  DiskModel model(record.start);
  for (size_t prefix = 0; prefix <= record.changes.size(); ++prefix) {
    if (prefix > 0) model.Step(record.changes[prefix - 1]);
    for (const Loss loss : {Loss::kNothing, Loss::kUnsynced, Loss::kSome}) {
      ASSERT_TRUE(mirror.Show(StateAfter(model, loss, prefix).List()).ok());
      const Status status = scenario.act(mirror.path());
      const CrashState crash{prefix, loss, prefix};
      ASSERT_TRUE(status.ok())
          << Describe(crash, record) << ": " << status.ToString();
      ASSERT_EQ(JudgeRoot(scenario, mirror.path(), Moment::kResumed), "")
          << Describe(crash, record);
      mirror.Reload();
    }
  }
}

class Replay : public testing::TestWithParam<Scenario> {};

TEST_P(Replay, TheModelIsWhatTheSystemDid) {
  const ScratchDirectory scratch;  // on a disk
  const Recorded recorded = RecordScenario(GetParam(), scratch.path());
  DiskState state = recorded.record.start;
  for (const DiskChange& change : recorded.record.changes) state.Apply(change);
  const Files files = state.List();
  for (const auto& [path, bytes] : recorded.files) {
    const auto it = files.find(path);
    ASSERT_NE(it, files.end()) << path << " is missing in the model";
    ASSERT_EQ(it->second == nullptr, bytes == nullptr) << path;
    EXPECT_TRUE(!bytes || *it->second == *bytes) << path;
  }
  EXPECT_EQ(files.size(), recorded.files.size());
}

TEST_P(Replay, OldOrNewAfterEveryLoss) {
  const Recorded recorded = RecordScenario(GetParam());
  const Outcome outcome = ReplayAll(GetParam(), recorded.record, 4,
                                    MixCount() / AllScenarios({}).size());
  EXPECT_EQ(outcome.violation_count, 0u) << outcome.first_violation;
  EXPECT_GT(outcome.state_count, 8 * recorded.record.changes.size());
}

TEST_P(Replay, TheNextRunGoesOn) {
  for (const Scenario& scenario :
       AllScenarios({.array_count = 6, .threads = 1})) {
    if (scenario.name != GetParam().name) continue;
    ExpectTheNextRunGoesOn(scenario, RecordScenario(scenario).record);
  }
}

INSTANTIATE_TEST_SUITE_P(Scenarios, Replay, testing::ValuesIn(AllScenarios({})),
                         NameOf);

// Proves that the tests above are able to fail.

TEST(ReplayFinds, ASaveWithoutSyncs) {
  ScenarioOptions options;
  options.sync = false;
  for (const Scenario& scenario :
       {FirstSave(options), SaveByRanks(options), Overwrite(options),
        ViewByLinks(options), ViewByCopies(options)}) {
    const Recorded recorded = RecordScenario(scenario);
    EXPECT_GT(ReplayAll(scenario, recorded.record, 1, 0).violation_count, 0u);
  }
}

TEST(ReplayFinds, AParentThatIsNotSynced) {
  for (const Scenario& scenario : {FirstSave({}), Overwrite({})}) {
    DiskRecord record = RecordScenario(scenario).record;
    const auto last_rename =
        std::find_if(record.changes.rbegin(), record.changes.rend(),
                     [](const DiskChange& change) {
                       return change.parent == kRootNode &&
                              (change.kind == DiskChange::Kind::kMove ||
                               change.kind == DiskChange::Kind::kExchange);
                     });
    ASSERT_NE(last_rename, record.changes.rend());
    const auto sync = last_rename.base();
    ASSERT_EQ(sync->kind, DiskChange::Kind::kSync);
    ASSERT_EQ(sync->node, kRootNode);
    record.changes.erase(sync);
    EXPECT_GT(ReplayAll(scenario, record, 1, 0).violation_count, 0u);
  }
}

Files SafeFiles(const DiskRecord& record) {
  DiskModel model(record.start);
  for (const DiskChange& change : record.changes) model.Step(change);
  return model.safe().List();
}

bool HaveSameFiles(const Files& a, const Files& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) {
                      return x.first == y.first &&
                             (x.second == nullptr) == (y.second == nullptr) &&
                             (!x.second || *x.second == *y.second);
                    });
}

// Returns the record without the changes after the last sync: a save does not
// wait for the removal of the overwritten checkpoint.
DiskRecord UpToTheLastSync(DiskRecord record) {
  while (record.changes.back().kind != DiskChange::Kind::kSync) {
    record.changes.pop_back();
  }
  return record;
}

Files AllFiles(const DiskRecord& record) {
  DiskState everything = record.start;
  for (const DiskChange& change : record.changes) everything.Apply(change);
  return everything.List();
}

// A view syncs everything that it makes, even links and files that no restore
// reads.
TEST(SyncsOfAView, MakeAllOfItSafe) {
  for (const Scenario& scenario :
       {ViewByLinks({}), ViewByCopies({}), OverwriteByView({})}) {
    const DiskRecord made = UpToTheLastSync(RecordScenario(scenario).record);
    EXPECT_TRUE(HaveSameFiles(SafeFiles(made), AllFiles(made)))
        << scenario.name << ": something was not synced";
  }
}

// When a save returns, all its bytes are safe, and all its syncs were needed.
TEST(SyncsOfASave, AreAllThatIsNeeded) {
  for (const Scenario& scenario :
       {FirstSave({}), SaveAsDirectories({}), Overwrite({})}) {
    const Recorded recorded = RecordScenario(scenario);
    const std::vector<DiskChange>& changes = recorded.record.changes;
    const DiskRecord saved = UpToTheLastSync(recorded.record);
    const Files everything = AllFiles(saved);
    EXPECT_TRUE(HaveSameFiles(SafeFiles(saved), everything))
        << scenario.name << ": something was not synced";
    size_t sync_count = 0;
    for (size_t i = 0; i < saved.changes.size(); ++i) {
      if (changes[i].kind != DiskChange::Kind::kSync) continue;
      ++sync_count;
      DiskRecord less = saved;
      less.changes.erase(less.changes.begin() + static_cast<ptrdiff_t>(i));
      EXPECT_FALSE(HaveSameFiles(SafeFiles(less), everything))
          << scenario.name << ": change " << i << ", a sync, is not needed";
    }
    std::printf("%-18s %zu syncs\n", scenario.name.c_str(), sync_count);
    EXPECT_GT(sync_count, 10u);
  }
}

// Runs `body` in a child that may change files only through the calls that a
// hook sees. Returns the child's exit status, 98 if filters are not available.
int RunForbidden(const std::function<Status()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (!ForbidOtherChanges()) ::_exit(98);
    ::_exit(body().ok() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_P(Replay, NoChangeEscapesTheRecorder) {
  const MemoryDirectory scratch;
  const Scenario& scenario = GetParam();
  ASSERT_TRUE(scenario.prepare(scratch.path()).ok());
  const int exit_status =
      RunForbidden([&] { return scenario.act(scratch.path()); });
  if (exit_status == 98) GTEST_SKIP() << "no seccomp filters here";
  EXPECT_EQ(exit_status, 0);
  EXPECT_EQ(JudgeRoot(scenario, scratch.path(), Moment::kCompleted), "");
}

TEST(ReplayFinds, AChangeThatEscapes) {
  const ScratchDirectory scratch;
  const int exit_status = RunForbidden([&] {
    // stdio makes system calls without the functions that the program replaces.
    std::FILE* file = std::fopen((scratch / "file").c_str(), "w");
    return file == nullptr ? UnavailableError("no file") : Status();
  });
  if (exit_status == 98) GTEST_SKIP() << "no seccomp filters here";
  EXPECT_EQ(exit_status, kEscapeExit);
}

}  // namespace
}  // namespace holdfast
