// Lets the k-th call that touches files fail, for every k. The save then fails
// with an error, or succeeds by trying again. Either way the existing steps
// stay, nothing is left behind, and the next save succeeds.
//
// HOLDFAST_FAULT_ARRAYS: the number of saved arrays (4 by default).
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "crash/judge.h"
#include "crash/libc_calls.h"
#include "crash/scenarios.h"
#include "holdfast/detail/commit.h"
#include "tools/powerloss/disk_mirror.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

struct Fault {
  std::string name;
  int error = EIO;         // 0 means that the write is cut short
  bool is_sticky = false;  // all later calls that match fail, too
  bool fails_looks = false;
  bool (*fits)(FileCallKind) = &IsChange;
};

bool IsSync(FileCallKind kind) { return kind == FileCallKind::kSync; }
bool IsWrite(FileCallKind kind) { return kind == FileCallKind::kWrite; }
bool IsRename(FileCallKind kind) {
  return kind == FileCallKind::kRename || kind == FileCallKind::kExchange;
}
// Whether a signal can interrupt the call.
bool IsInterruptible(FileCallKind kind) {
  return kind == FileCallKind::kWrite || kind == FileCallKind::kSync ||
         kind == FileCallKind::kCreate || kind == FileCallKind::kRead;
}
bool IsLook(FileCallKind kind) { return !IsChange(kind); }

// Fails the k-th call that matches the fault.
class FaultHook : public CallHook {
 public:
  FaultHook(const Fault& fault, long k) : fault_(fault), k_(k) {}

  long Run(const FileCall& call, const std::function<long()>& make) override {
    if (!fault_.fits(call.kind)) return make();
    const long number = ++count_;
    if (number < k_ || (number > k_ && !fault_.is_sticky)) return make();
    failed_kind_ = call.kind;
    if (fault_.error == 0) {
      return WriteFirstBytes(call, (TotalBytes(call.pieces) + 1) / 2);
    }
    errno = fault_.error;
    return -1;
  }
  bool has_failed() const { return count_ >= k_; }
  std::string failed_kind() const {
    return std::string(FileCallKindName(failed_kind_));
  }

 private:
  const Fault& fault_;
  const long k_;
  std::atomic<long> count_{0};
  std::atomic<FileCallKind> failed_kind_{FileCallKind::kCreate};
};

std::vector<Fault> AllFaults() {
  return {
      {"Eio", EIO, false},
      {"EioSticky", EIO, true},
      {"Enospc", ENOSPC, false},
      {"EnospcSticky", ENOSPC, true},
      {"Edquot", EDQUOT, false},
      {"Eintr", EINTR, false, false, &IsInterruptible},
      {"ShortWrite", 0, false, false, &IsWrite},
      {"ShortWritesFromThere", 0, true, false, &IsWrite},
      {"SyncFails", EIO, false, false, &IsSync},
      {"SyncsFailFromThere", EIO, true, false, &IsSync},
      {"RenameFails", EXDEV, false, false, &IsRename},
      {"LooksFail", EIO, false, true, &IsLook},
      {"LooksFailFromThere", EIO, true, true, &IsLook},
      {"NoMoreFiles", EMFILE, true, true,
       [](FileCallKind kind) {
         return kind == FileCallKind::kOpen || kind == FileCallKind::kCreate;
       }},
  };
}

// Whether the scenario has an alternative when the call fails: a step that
// cannot be moved to the trash gets a temporary name instead, so that space can
// be freed even on a full disk.
bool HasWayOut(const Scenario& scenario) {
  return scenario.name == "SaveByManager" || scenario.name == "DeleteStep";
}

// Whether the library recovers from the fault, so that the call may succeed.
bool IsRepaired(const Fault& fault, const Scenario& scenario) {
  // Without the rename (EXDEV), the library makes the change file by file.
  return fault.error == 0 || fault.error == EINTR || fault.error == EXDEV ||
         HasWayOut(scenario);
}

size_t OpenFileCount() {
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    (void)entry;
    ++count;
  }
  return count;
}

ScenarioOptions SmallOptions() {
  const char* wanted = std::getenv("HOLDFAST_FAULT_ARRAYS");
  ScenarioOptions options;
  options.array_count = wanted == nullptr ? 4 : std::atoi(wanted);
  options.threads = 1;
  return options;
}

std::vector<Scenario> FaultScenarios() { return AllScenarios(SmallOptions()); }

// A scenario that is repeated, each time with a fault of kind `F`.
template <typename F>
class ScenarioFaults : public testing::TestWithParam<std::tuple<Scenario, F>> {
 protected:
  const Scenario& scenario() const { return std::get<0>(this->GetParam()); }
  const F& fault() const { return std::get<1>(this->GetParam()); }

  void SetUp() override {
    ASSERT_TRUE(scenario().prepare(mirror_.path()).ok());
    start_ = mirror_.Reload();
  }

  // Expects only the scenario's steps and an empty trash below `root`.
  void ExpectNoLeftover(const std::string& root) const {
    for (const auto& entry : fs::directory_iterator(root)) {
      const std::string name = entry.path().filename();
      if (name == ".holdfast_trash") {
        EXPECT_TRUE(fs::is_empty(entry.path())) << where_;
      } else {
        EXPECT_TRUE(scenario().steps.contains(name)) << name << ", " << where_;
      }
    }
  }

  DiskMirror mirror_;
  Files start_;  // the prepared files
  std::string where_;
};

class Faults : public ScenarioFaults<Fault> {
 protected:
  // Runs the scenario with the k-th call failing. Returns whether there was a
  // k-th call.
  bool FailAt(long k) {
    const std::string& root = mirror_.path();
    EXPECT_TRUE(mirror_.Show(start_).ok());
    const size_t open_file_count = OpenFileCount();
    FaultHook hook(fault(), k);
    Status status;
    {
      const ScopedCallHook scoped(&hook);
      status = scenario().act(root);
    }
    where_ = "call " + std::to_string(k) + " (" + hook.failed_kind() +
             "): " + status.ToString();
    EXPECT_EQ(OpenFileCount(), open_file_count) << where_;
    const Moment moment = status.ok() ? Moment::kCompleted : Moment::kUnderway;
    EXPECT_EQ(JudgeRoot(scenario(), root, moment), "") << where_;
    if (!hook.has_failed()) {
      EXPECT_TRUE(status.ok()) << where_;
      ExpectNoLeftover(root);
      return false;
    }
    if (status.ok()) {
      ++silent_[hook.failed_kind()];
      EXPECT_TRUE(IsRepaired(fault(), scenario()) || fault().fails_looks)
          << where_;
    }
    // The next save must succeed.
    const Status next = scenario().act(root);
    EXPECT_TRUE(next.ok()) << next.ToString() << " after " << where_;
    EXPECT_EQ(JudgeRoot(scenario(), root, Moment::kResumed), "") << where_;
    if (HasWayOut(scenario())) {
      EXPECT_TRUE(CleanupTemporaryPaths(root).ok()) << where_;
    }
    ExpectNoLeftover(root);
    mirror_.Reload();
    return true;
  }

  std::map<std::string, int> silent_;  // faults without an error, by call
};

TEST_P(Faults, AreToldAndLoseNothing) {
  long k = 1;
  while (FailAt(k) && !HasFailure() && k < 5000) ++k;
  std::string silent;
  for (const auto& [kind, count] : silent_) {
    silent += " " + kind + ":" + std::to_string(count);
  }
  std::printf("%-18s %-20s %4ld faults; put right:%s\n",
              scenario().name.c_str(), fault().name.c_str(), k - 1,
              silent.empty() ? " none" : silent.c_str());
}

INSTANTIATE_TEST_SUITE_P(Calls, Faults,
                         testing::Combine(testing::ValuesIn(FaultScenarios()),
                                          testing::ValuesIn(AllFaults())),
                         [](const auto& info) {
                           return std::get<0>(info.param).name +
                                  std::get<1>(info.param).name;
                         });

// A device that fails while its arrays are saved.
struct DeviceFault {
  std::string name;
  void (*order)(DeviceTwin& twin, int k);
  // This process cannot use the device again.
  bool is_final = false;
};

std::vector<DeviceFault> AllDeviceFaults() {
  return {
      {"CallFails",
       [](DeviceTwin& twin, int k) {
         twin.FailCall(k, UnavailableError("as ordered"));
       }},
      {"CopyIsCut", [](DeviceTwin& twin, int k) { twin.CutCopy(k); }},
      {"IsLost", [](DeviceTwin& twin, int k) { twin.LoseAt(k); }, true},
  };
}

std::vector<Scenario> DeviceScenarios() {
  std::vector<Scenario> scenarios = FaultScenarios();
  std::erase_if(scenarios, [](const Scenario& s) { return !s.device; });
  scenarios.push_back(FromDevice(SaveByRanks, SmallOptions()));
  return scenarios;
}

class DeviceFaults : public ScenarioFaults<DeviceFault> {
 protected:
  CrashDevice& device() const { return *scenario().device; }

  // Lets the device go on with all that it was asked for.
  void ExpectNoViolation() {
    device().twin().RunAll();
    const std::vector<std::string> violations = device().twin().violations();
    EXPECT_TRUE(violations.empty()) << violations.front() << ", " << where_;
  }

  void ExpectAllIsGivenBack() {
    device().Stop();
    EXPECT_EQ(device().twin().pinned_bytes(), 0u) << where_;
    EXPECT_EQ(device().twin().device_bytes(0), 0u) << where_;
    EXPECT_EQ(device().twin().handle_count(), 0u) << where_;
  }

  // Runs the scenario with the k-th fault. Returns whether it was told.
  bool FailAt(int k) {
    const std::string& root = mirror_.path();
    EXPECT_TRUE(mirror_.Show(start_).ok());
    device().Restart();
    fault().order(device().twin(), k);
    const Status status = scenario().act(root);
    where_ = "fault " + std::to_string(k) + ": " + status.ToString();
    // All copies come before the commit.
    const Moment moment = status.ok() ? Moment::kCompleted : Moment::kBefore;
    EXPECT_EQ(JudgeRoot(scenario(), root, moment), "") << where_;
    ExpectNoLeftover(root);
    if (fault().is_final) device().Stop();
    ExpectNoViolation();
    if (!status.ok()) {
      if (fault().is_final) device().Restart();
      device().twin().Recover();
      const Status next = scenario().act(root);
      EXPECT_TRUE(next.ok()) << next.ToString() << " after " << where_;
      EXPECT_EQ(JudgeRoot(scenario(), root, Moment::kCompleted), "") << where_;
      ExpectNoViolation();
    }
    ExpectAllIsGivenBack();
    mirror_.Reload();
    return !status.ok();
  }
};

TEST_P(DeviceFaults, AreToldAndLoseNothing) {
  int k = 1;
  while (FailAt(k) && !HasFailure() && k < 5000) ++k;
  std::printf("%-22s %-10s %4d faults\n", scenario().name.c_str(),
              fault().name.c_str(), k - 1);
  EXPECT_GT(k, 10);
  // The tests of other faults use the device.
  device().Restart();
}

INSTANTIATE_TEST_SUITE_P(Device, DeviceFaults,
                         testing::Combine(testing::ValuesIn(DeviceScenarios()),
                                          testing::ValuesIn(AllDeviceFaults())),
                         [](const auto& info) {
                           return std::get<0>(info.param).name +
                                  std::get<1>(info.param).name;
                         });

// If a call fails, ListSteps returns an error or the correct list.
TEST(ListFaults, AreToldOrHarmless) {
  const MemoryDirectory root;
  const Scenario scenario = SaveOfItems(SmallOptions());
  ASSERT_TRUE(scenario.prepare(root.path()).ok());
  ASSERT_TRUE(scenario.act(root.path()).ok());
  const Fault fault{"LooksFail", EIO, false, true, &IsLook};
  int refused_count = 0, right_count = 0;
  for (long k = 1;; ++k) {
    FaultHook hook(fault, k);
    Result<std::vector<StepInfo>> steps = UnavailableError("not asked");
    {
      const ScopedCallHook scoped(&hook);
      steps = ListSteps(root.path());
    }
    if (!steps.ok()) {
      ++refused_count;
      continue;
    }
    ASSERT_EQ(steps->size(), 3u) << "call " << k;
    for (const StepInfo& step : *steps) {
      EXPECT_TRUE(step.committed ||
                  step.why_not.find("Input/output error") != std::string::npos)
          << "call " << k << " (" << hook.failed_kind() << "): step "
          << step.name << ": " << step.why_not;
    }
    if (!hook.has_failed()) break;
    ++right_count;
  }
  std::printf("%d lists refused, %d right\n", refused_count, right_count);
  EXPECT_GT(refused_count, 0);
}

}  // namespace
}  // namespace holdfast
