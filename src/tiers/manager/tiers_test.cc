// Hosts are threads in this process, each with its own directory and manager.
// They save, are lost in every possible way, and restore.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <thread>

#include "engine/checkpoint/opened_checkpoint.h"
#include "ground/base/status_macros.h"
#include "holdfast/steps/steps.h"
#include "holdfast/tiers/tiered_manager.h"
#include "holdfast/tools/fingerprint.h"
#include "tiers/manager/local_steps.h"
#include "tiers/manager/rate_limit.h"
#include "tiers/manager/recovery_plan.h"
#include "tiers/manager/tier_record.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kSaveId = "0123456789abcdef0123456789abcdef";

// --- Records ---

GroupRecord SomeGroup() {
  GroupRecord record;
  record.step = {3, 120, kSaveId};
  record.item = "default";
  record.block_bytes = 1000;
  record.parity_count = 1;
  record.groups = {{0, 2}, {1, 3}};
  record.group = 1;
  record.hosts = {"a", "b", "c", "d"};
  record.members = {{{{"d/x", 1500}, {"z", 0}}, {1, 2}}, {{{"m", 10}}, {7}}};
  return record;
}

TEST(TierRecordTest, GivesBackWhatWasEncoded) {
  const GroupRecord record = SomeGroup();
  const auto decoded = DecodeGroupRecord(EncodeGroupRecord(record));
  ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
  EXPECT_EQ(decoded->step, record.step);
  EXPECT_EQ(decoded->groups, record.groups);
  EXPECT_EQ(decoded->hosts, record.hosts);
  EXPECT_EQ(decoded->data_bytes(), (std::vector<uint64_t>{1500, 10}));
  EXPECT_EQ(decoded->members[0].block_sums, record.members[0].block_sums);
  EXPECT_EQ(decoded->IndexOf(3), 1);
}

TEST(TierRecordTest, RefusesEveryChangedByteAndEveryCut) {
  const std::string bytes = EncodeGroupRecord(SomeGroup());
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] ^= 1;
    EXPECT_EQ(DecodeGroupRecord(changed).status().code(),
              StatusCode::kDataLoss);
    EXPECT_EQ(DecodeGroupRecord(bytes.substr(0, i)).status().code(),
              StatusCode::kDataLoss);
  }
}

TEST(TierRecordTest, KnowsItsOwnDirectoryNamesAlone) {
  const TierMember member{{3, 120, kSaveId}, 5};
  const std::string name = DirectoryNameOf(member);
  EXPECT_EQ(name, "120.3." + std::string(kSaveId) + ".r5");
  EXPECT_EQ(ParseDirectoryName(name), member);
  for (const char* other : {"120", "120.3", "120.3.x.r5",
                            "120.03.0123456789abcdef0123456789abcdef.r5",
                            "120.3.0123456789abcdef0123456789abcdef.r5.tmp",
                            "-1.3.0123456789abcdef0123456789abcdef.r5"}) {
    EXPECT_FALSE(ParseDirectoryName(other)) << other;
  }
}

// --- Policy ---

TEST(StepsToRemoveTest, KeepsTheLastProtectedStepWhatever) {
  const auto step = [](int64_t n) { return TierStep{1, n, kSaveId}; };
  // The newest step is not protected yet.
  std::vector<KeptStep> steps = {{step(1), true, false, 100},
                                 {step(2), true, false, 100},
                                 {step(3), false, false, 100}};
  EXPECT_THAT(StepsToRemove(steps, 1, 0), ElementsAre(step(1)));
  EXPECT_THAT(StepsToRemove(steps, 2, 0), IsEmpty());
  EXPECT_THAT(StepsToRemove(steps, 2, 250), ElementsAre(step(1)));
  EXPECT_THAT(StepsToRemove(steps, 2, 1), ElementsAre(step(1)));
  steps[0].is_in_use = true;
  EXPECT_THAT(StepsToRemove(steps, 1, 0), IsEmpty());
  steps = {{step(1), false, false, 1}, {step(2), false, false, 1}};
  EXPECT_THAT(StepsToRemove(steps, 1, 1), IsEmpty());
  // An unprotected step older than the newest protected step is useless.
  steps = {{step(1), false, false, 1}, {step(2), true, false, 1}};
  EXPECT_THAT(StepsToRemove(steps, 5, 0), ElementsAre(step(1)));
}

// --- Rates ---

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

TEST(RateLimitTest, StreamsTogetherStayBelowTheRate) {
  CancelToken cancel;
  RateLimit limit(1e6, cancel);
  const auto begun = Clock::now();
  {
    std::vector<std::jthread> streams;
    for (int i = 0; i < 4; ++i) {
      streams.emplace_back([&] {
        for (int j = 0; j < 5; ++j) EXPECT_TRUE(limit.Take(10'000).ok());
      });
    }
  }
  // The first bytes did not wait.
  EXPECT_GE(SecondsSince(begun), 0.19);
}

TEST(RateLimitTest, AWaitIsCancelled) {
  CancelToken cancel;
  RateLimit limit(1, cancel);
  EXPECT_TRUE(limit.Take(1'000'000).ok());
  std::jthread canceller([&] { cancel.Cancel(); });
  EXPECT_EQ(limit.Take(1).code(), StatusCode::kCancelled);
  EXPECT_EQ(RateLimit(0, cancel).Take(1).code(), StatusCode::kCancelled);
}

// --- Hosts ---

constexpr int64_t kRowCount = 64;
constexpr int64_t kColumnCount = 96;

Tree StateAt(int64_t step) {
  std::mt19937 random(static_cast<uint32_t>(step));
  const auto array = [&](Shape shape) {
    std::vector<float> values(ElementCount(shape));
    for (float& value : values) value = static_cast<float>(random());
    return *Array::Of(values, shape);
  };
  return Tree::Dict({{"a", array({kRowCount, kColumnCount})},
                     {"b", array({kColumnCount})},
                     {"c", array({kRowCount, 7})},
                     {"step", step}});
}

// Returns ok if the opened step equals StateAt of its number, bit for bit.
Status CheckState(const TierRestore& restore) {
  const Tree wanted = StateAt(restore.step);
  for (const char* name : {"a", "b", "c", "step"}) {
    auto read = restore.checkpoint->Read(name);
    if (!read.ok()) return read.status();
    const Tree* leaf = wanted.Find(name);
    const bool is_scalar = leaf->leaf_kind() == LeafKind::kScalar;
    const std::string_view bytes =
        is_scalar ? leaf->scalar().view()
                  : std::string_view(leaf->array().view().data,
                                     leaf->array().byte_count());
    if (std::string_view(read->view().data, read->byte_count()) != bytes) {
      return InternalError(std::string(name) + " of step " +
                           std::to_string(restore.step) + " differs");
    }
  }
  return Status();
}

class TieredManagerTest : public testing::Test {
 protected:
  TieredManagerTest() {
    std::string path = testing::TempDir() + "tiersXXXXXX";
    root_ = mkdtemp(path.data());
  }
  ~TieredManagerTest() override { fs::remove_all(root_); }

  std::string HostPath(int64_t host) const {
    return root_ + "/host" + std::to_string(host);
  }
  std::string SharedPath() const { return root_ + "/shared"; }

  TieredManagerOptions OptionsOf(int64_t host) const {
    TieredManagerOptions options = options_;
    options.local.directory = HostPath(host);
    if (options.shared.save_every > 0) options.shared.directory = SharedPath();
    options.parity.failure_domain = "host" + std::to_string(host);
    options.host = "127.0.0.1";
    options.listen_address = "127.0.0.1";
    options.timeout_seconds = 60;
    return options;
  }

  using Work = std::function<Status(TieredManager& manager, int64_t rank)>;

  // Does one run in which rank i is on hosts[i], and returns each rank's
  // Status.
  std::vector<Status> Run(const std::vector<int64_t>& hosts, const Work& work) {
    auto transports = MakeThreadTransports(hosts.size());
    std::vector<Status> statuses(hosts.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < hosts.size(); ++rank) {
      threads.emplace_back([&, rank] {
        const auto group = MakeProcessGroup(transports[rank]);
        statuses[rank] = [&]() -> Status {
          HF_ASSIGN_OR_RETURN(
              const std::unique_ptr<TieredManager> manager,
              TieredManager::Make(OptionsOf(hosts[rank]), group.get()));
          HF_RETURN_IF_ERROR(work(*manager, static_cast<int64_t>(rank)));
          return manager->Close();
        }();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }

  void RunOk(const std::vector<int64_t>& hosts, const Work& work) {
    for (const Status& status : Run(hosts, work)) {
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
  }

  static Work SaveSteps(std::vector<int64_t> steps) {
    return [steps](TieredManager& manager, int64_t) -> Status {
      for (const int64_t step : steps) {
        HF_RETURN_IF_ERROR(manager.Save(step, StateAt(step)).status());
      }
      return manager.Wait();
    };
  }

  struct Wanted {
    int64_t step;
    std::string source;
    std::vector<int64_t> rebuilt;
  };
  static Work RestoreIs(Wanted wanted) {
    return [wanted](TieredManager& manager, int64_t) -> Status {
      HF_ASSIGN_OR_RETURN(const TierRestore restore,
                          manager.Restore(CheckState));
      EXPECT_EQ(restore.step, wanted.step);
      EXPECT_EQ(restore.source, wanted.source);
      EXPECT_EQ(restore.rebuilt_ranks, wanted.rebuilt);
      return Status();
    };
  }

  // Returns the directory of the only step on the host.
  std::string StepPathOf(int64_t host) const {
    for (const auto& entry : fs::directory_iterator(HostPath(host) + "/run")) {
      return entry.path();
    }
    return "";
  }

  void FlipByte(const std::string& path, uint64_t offset) const {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    ASSERT_TRUE(file.good()) << path;
    file.seekg(offset);
    const char byte = static_cast<char>(file.get());
    file.seekp(offset);
    file.put(static_cast<char>(byte ^ 0x10));
  }

  std::string root_;
  TieredManagerOptions options_ = [] {
    TieredManagerOptions options;
    options.parity.data_shards = 3;
    options.parity.parity_shards = 1;
    options.parity.block_bytes = 512;
    options.save.chunk_bytes = 1024;
    return options;
  }();
};

TEST_F(TieredManagerTest, OneProcessSavesAndRestores) {
  options_.local.directory = HostPath(0);
  auto manager = TieredManager::Make(options_, nullptr);
  ASSERT_TRUE(manager.ok()) << manager.status().ToString();
  EXPECT_EQ((*manager)->Restore(CheckState).status().code(),
            StatusCode::kNotFound);
  ASSERT_TRUE((*manager)->Save(7, StateAt(7)).ok());
  ASSERT_TRUE((*manager)->Wait().ok());
  const auto restore = (*manager)->Restore(CheckState);
  ASSERT_TRUE(restore.ok()) << restore.status().ToString();
  EXPECT_EQ(restore->step, 7);
  EXPECT_EQ(restore->source, "local");
}

TEST_F(TieredManagerTest, ASaveMaySayWhetherItIsShared) {
  options_.local.directory = HostPath(0);
  options_.shared = {.directory = SharedPath(), .save_every = 2};
  auto manager = TieredManager::Make(options_, nullptr);
  ASSERT_TRUE(manager.ok()) << manager.status().ToString();
  TieredSaveOptions options;
  for (const int64_t step : {1, 2, 3, 4}) {
    if (step != 4) options.is_shared = step == 3;
    if (step == 4) options.is_shared.reset();
    ASSERT_TRUE((*manager)->Save(step, StateAt(step), options).ok());
  }
  ASSERT_TRUE((*manager)->Wait().ok());
  std::vector<int64_t> shared;
  const auto steps = (*manager)->Steps();
  for (const TierStepInfo& step : *steps) {
    if (step.is_shared) shared.push_back(step.step);
  }
  EXPECT_THAT(shared, ElementsAre(4, 3));
  ASSERT_TRUE((*manager)->Close().ok());
  options_.shared = {};
  options_.local.directory = HostPath(1);
  manager = TieredManager::Make(options_, nullptr);
  ASSERT_TRUE(manager.ok()) << manager.status().ToString();
  options.is_shared = true;
  EXPECT_EQ((*manager)->Save(1, StateAt(1), options).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(TieredManagerTest, AnyHostOfAGroupMayBeLost) {
  for (int64_t lost = 0; lost < 4; ++lost) {
    RunOk({0, 1, 2, 3}, SaveSteps({lost + 1}));
    fs::remove_all(HostPath(lost));
    RunOk({0, 1, 2, 3}, RestoreIs({lost + 1, "parity", {lost}}));
    // The lost member has been rebuilt, with its parity.
    RunOk({0, 1, 2, 3}, RestoreIs({lost + 1, "local", {}}));
  }
}

TEST_F(TieredManagerTest, AnyTwoOfTwoParitiesMayBeLost) {
  options_.parity.parity_shards = 2;
  for (int64_t a = 0; a < 5; ++a) {
    for (int64_t b = a + 1; b < 5; ++b) {
      RunOk({0, 1, 2, 3, 4}, SaveSteps({10 * a + b}));
      fs::remove_all(HostPath(a));
      fs::remove_all(HostPath(b));
      RunOk({0, 1, 2, 3, 4}, RestoreIs({10 * a + b, "parity", {a, b}}));
    }
  }
}

TEST_F(TieredManagerTest, FewerAndMoreAndOtherHostsRestore) {
  RunOk({0, 1, 2, 3}, SaveSteps({5}));
  fs::remove_all(HostPath(2));
  RunOk({3, 0, 1}, RestoreIs({5, "parity", {2}}));
  RunOk({8, 3, 1, 0, 7}, RestoreIs({5, "local", {}}));
  RunOk({8, 3, 1, 0, 7}, SaveSteps({6}));
  RunOk({7, 8, 0, 1, 3}, RestoreIs({6, "local", {}}));
}

TEST_F(TieredManagerTest, TooMuchLostFallsBackToTheSharedTierInWords) {
  options_.shared.save_every = 2;
  RunOk({0, 1, 2, 3}, SaveSteps({2}));
  RunOk({0, 1, 2, 3}, SaveSteps({3}));
  fs::remove_all(HostPath(1));
  fs::remove_all(HostPath(2));
  RunOk({0, 1, 2, 3}, [](TieredManager& manager, int64_t) -> Status {
    HF_ASSIGN_OR_RETURN(const TierRestore restore, manager.Restore(CheckState));
    EXPECT_EQ(restore.step, 2);
    EXPECT_EQ(restore.source, "shared");
    EXPECT_EQ(restore.notes.size(), 1u);
    EXPECT_THAT(restore.notes.at(0),
                HasSubstr("step 3 of the local tier is skipped"));
    EXPECT_THAT(restore.notes.at(0), HasSubstr("ranks 1, 2 of the save lost"));
    return Status();
  });
  // The shared step is a plain checkpoint, which needs no hosts.
  const auto loaded = OpenCheckpoint(Place(SharedPath() + "/2"));
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ((*loaded)->leaves().size(), 4u);
  EXPECT_TRUE(VerifyCheckpoint(Place(SharedPath() + "/2"))->damages.empty());
}

TEST_F(TieredManagerTest, SavesKeepToTheirRatesAndRestoresHaveNone) {
  constexpr double kRate = 20'000;
  options_.parity.bytes_per_second_max = kRate;
  RunOk({0, 1, 2, 3}, [](TieredManager& manager, int64_t) -> Status {
    const auto begun = Clock::now();
    HF_RETURN_IF_ERROR(manager.Save(1, StateAt(1)).status());
    HF_RETURN_IF_ERROR(manager.WaitProtected());
    const auto received = static_cast<double>(manager.stats().received_bytes);
    EXPECT_GT(received, 4000);
    EXPECT_GE(SecondsSince(begun) * kRate, received - 512);
    return Status();
  });
  // At this rate, rebuilding a host would take hours, so the limit must not
  // apply to it.
  options_.parity.bytes_per_second_max = 1;
  fs::remove_all(HostPath(2));
  RunOk({0, 1, 2, 3}, RestoreIs({1, "parity", {2}}));
  options_.parity.bytes_per_second_max = 0;
  options_.shared = {.save_every = 1, .bytes_per_second_max = kRate};
  RunOk({0, 1, 2, 3}, [](TieredManager& manager, int64_t) -> Status {
    const auto begun = Clock::now();
    HF_RETURN_IF_ERROR(manager.Save(2, StateAt(2)).status());
    HF_RETURN_IF_ERROR(manager.Wait());
    const auto copied = static_cast<double>(manager.stats().data_bytes);
    EXPECT_GT(copied, 4000);
    EXPECT_GE(SecondsSince(begun) * kRate, copied - 4096);
    return Status();
  });
}

TEST_F(TieredManagerTest, AStepThatWasDueIsCopiedByTheNextManager) {
  RunOk({0, 1, 2, 3}, SaveSteps({2}));
  options_.shared.save_every = 2;
  fs::remove_all(HostPath(3));
  RunOk({0, 1, 2, 3}, RestoreIs({2, "parity", {3}}));
  EXPECT_TRUE(VerifyCheckpoint(Place(SharedPath() + "/2"))->damages.empty());
}

// Rank 0 is on a host that has no part of the step; all other hosts have parts.
TEST_F(TieredManagerTest, AStepThatWasDueIsCopiedByMoreHostsThanSavedIt) {
  RunOk({0, 1, 2, 3}, SaveSteps({2}));
  options_.shared.save_every = 2;
  RunOk({8, 0, 1, 2, 3}, RestoreIs({2, "local", {}}));
  EXPECT_TRUE(VerifyCheckpoint(Place(SharedPath() + "/2"))->damages.empty());
}

TEST_F(TieredManagerTest, SharedStepsHaveTheFingerprintsOfTheirTrees) {
  options_.save.fingerprints = true;
  options_.shared.save_every = 2;
  RunOk({0, 1, 2, 3}, SaveSteps({2, 3}));
  fs::remove_all(HostPath(1));
  RunOk({0, 1, 2, 3}, RestoreIs({3, "parity", {1}}));
  OpenOptions open;
  open.fingerprints = true;
  const auto shared = OpenCheckpoint(Place(SharedPath() + "/2"), open);
  ASSERT_TRUE(shared.ok()) << shared.status().ToString();
  std::map<std::string, std::string> found;
  for (const LeafInfo& leaf : (*shared)->leaves()) {
    found[leaf.name] = leaf.fingerprint;
  }
  EXPECT_EQ(found, *FingerprintsOf(StateAt(2)));
}

TEST_F(TieredManagerTest, TheSharedTierKeepsTheNewestAndStepsOfOthers) {
  options_.shared.save_every = 2;
  options_.shared.max_to_keep = 2;
  ASSERT_TRUE(Save(SharedPath() + "/1", StateAt(1)).ok());
  RunOk({0, 1, 2, 3}, SaveSteps({2, 4, 6, 8}));
  std::vector<int64_t> steps;
  const auto listed = ListSteps(SharedPath());
  for (const StepInfo& step : *listed) {
    steps.push_back(step.step.value());
  }
  std::sort(steps.begin(), steps.end());
  EXPECT_THAT(steps, ElementsAre(1, 6, 8));
}

TEST_F(TieredManagerTest, AMemberThatWasMadeAgainElsewhereIsKeptOnce) {
  RunOk({0, 1, 2, 3}, SaveSteps({2}));
  RunOk({0, 1, 2}, RestoreIs({2, "parity", {3}}));
  RunOk({0, 1, 2, 3}, RestoreIs({2, "local", {}}));
  int64_t member_count = 0;
  for (int64_t host = 0; host < 4; ++host) {
    const fs::directory_iterator entries(HostPath(host) + "/run");
    for (const auto& entry : entries) {
      member_count +=
          ParseDirectoryName(entry.path().filename().string()) != std::nullopt;
    }
  }
  EXPECT_EQ(member_count, 4);
}

TEST_F(TieredManagerTest, DamageOfEveryFileIsHealed) {
  RunOk({0, 1, 2, 3}, SaveSteps({9}));
  std::vector<std::string> paths;
  for (const auto& entry : fs::recursive_directory_iterator(StepPathOf(1))) {
    if (entry.is_regular_file() && entry.file_size() > 0) {
      paths.push_back(entry.path());
    }
  }
  EXPECT_GE(paths.size(), 5u);
  for (const std::string& path : paths) {
    FlipByte(path, fs::file_size(path) / 2);
    RunOk({0, 1, 2, 3}, [&](TieredManager& manager, int64_t) -> Status {
      HF_ASSIGN_OR_RETURN(const TierRestore restore,
                          manager.Restore(CheckState));
      EXPECT_EQ(restore.step, 9);
      EXPECT_THAT(restore.rebuilt_ranks, IsEmpty());
      // A damaged record is copied from another rank; damaged blocks are
      // rebuilt.
      if (!path.ends_with("/group")) {
        EXPECT_GE(restore.healed_block_count, 1u) << path;
      }
      return Status();
    });
    RunOk({0, 1, 2, 3}, RestoreIs({9, "local", {}}));
  }
  fs::remove_all(HostPath(3));
  RunOk({0, 1, 2, 3}, RestoreIs({9, "parity", {3}}));
}

TEST_F(TieredManagerTest, ArraysInFilesOfTheirOwnAreRestoredToo) {
  options_.save.use_ocdbt = false;
  options_.shared.save_every = 1;
  RunOk({0, 1, 2, 3}, SaveSteps({5}));
  fs::remove_all(HostPath(2));
  RunOk({0, 1, 2, 3}, RestoreIs({5, "parity", {2}}));
  EXPECT_TRUE(VerifyCheckpoint(Place(SharedPath() + "/5"))->damages.empty());
}

TEST_F(TieredManagerTest, AnOldTimelineNeverWins) {
  RunOk({0, 1, 2, 3}, SaveSteps({100}));
  // Host 3 is absent with its part of step 100; the others start anew.
  fs::rename(HostPath(3), HostPath(3) + ".away");
  for (int64_t host = 0; host < 3; ++host) {
    fs::rename(HostPath(host), HostPath(host) + ".old");
    fs::create_directories(HostPath(host));
  }
  // This run learns of step 100 only from one host.
  fs::rename(HostPath(0) + ".old", HostPath(0));
  RunOk({0, 1, 2, 4}, SaveSteps({60}));
  fs::remove_all(HostPath(4));
  fs::rename(HostPath(3) + ".away", HostPath(3));
  for (int64_t host = 1; host < 3; ++host) {
    for (const auto& entry :
         fs::directory_iterator(HostPath(host) + ".old/run")) {
      fs::rename(entry.path(),
                 HostPath(host) + "/run/" + entry.path().filename().string());
    }
  }
  RunOk({0, 1, 2, 3}, RestoreIs({60, "parity", {3}}));
}

TEST_F(TieredManagerTest, AnOldTimelineOfTheSharedTierNeverWins) {
  options_.shared.save_every = 1;
  RunOk({0, 1, 2, 3}, SaveSteps({100}));
  RunOk({0, 1, 2, 3}, [](TieredManager& manager, int64_t) -> Status {
    return SaveSteps({60})(manager, 0);
  });
  for (int64_t host = 0; host < 4; ++host) fs::remove_all(HostPath(host));
  RunOk({0, 1, 2, 3}, RestoreIs({60, "shared", {}}));
  // New hosts take it into account, too.
  RunOk({4, 5, 6, 7}, SaveSteps({61}));
  RunOk({4, 5, 6, 7}, RestoreIs({61, "local", {}}));
}

TEST_F(TieredManagerTest, TwoRunsOnOneDiskDoNotMeet) {
  RunOk({0, 1, 2, 3}, SaveSteps({4}));
  options_.run = "other";
  RunOk({0, 1, 2, 3}, [](TieredManager& manager, int64_t) -> Status {
    EXPECT_EQ(manager.Restore(CheckState).status().code(),
              StatusCode::kNotFound);
    return Status();
  });
  RunOk({0, 1, 2, 3}, SaveSteps({1}));
  options_.run = "run";
  RunOk({0, 1, 2, 3}, RestoreIs({4, "local", {}}));
}

TEST_F(TieredManagerTest, ADirectoryIsOneProcessAtATime) {
  options_.local.directory = HostPath(0);
  const auto first = TieredManager::Make(options_, nullptr);
  ASSERT_TRUE(first.ok());
  const auto second = TieredManager::Make(options_, nullptr);
  EXPECT_EQ(second.status().code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("a directory of its own"));
}

TEST_F(TieredManagerTest, AllHearOfARankThatCannotBegin) {
  // Two ranks use the same directory; the other two are fine.
  for (const Status& status :
       Run({0, 1, 1, 2}, [](TieredManager&, int64_t) { return Status(); })) {
    EXPECT_EQ(status.code(), StatusCode::kAlreadyExists) << status.ToString();
  }
}

TEST_F(TieredManagerTest, TooFewRanksForTheParityAreRefused) {
  options_.parity.parity_shards = 2;
  for (const Status& status :
       Run({0, 1}, [](TieredManager&, int64_t) { return Status(); })) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  }
}

TEST_F(TieredManagerTest, ARankWithoutATreeFailsTheSaveOfAll) {
  RunOk({0, 1, 2, 3}, [](TieredManager& manager, int64_t rank) -> Status {
    TieredSaveOptions options;
    if (rank == 2) options.failure = ResourceExhaustedError("no memory");
    HF_RETURN_IF_ERROR(manager.Save(1, StateAt(1), options).status());
    const Status failed = manager.WaitProtected();
    EXPECT_EQ(failed.code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(failed.message()), HasSubstr("no memory"));
    HF_RETURN_IF_ERROR(manager.Save(2, StateAt(2)).status());
    return manager.WaitProtected();
  });
  RunOk({0, 1, 2, 3}, RestoreIs({2, "local", {}}));
}

// Expects a save to fail on all ranks with `code`, and the previous step to be
// kept.
void ExpectRefused(TieredManager& manager, const Tree& tree,
                   const TieredSaveOptions& options, StatusCode code,
                   const std::string& why) {
  ASSERT_TRUE(manager.Save(2, tree, options).ok());
  const Status failed = manager.WaitProtected();
  EXPECT_EQ(failed.code(), code) << failed.ToString();
  EXPECT_THAT(std::string(failed.message()), HasSubstr(why));
  const auto steps = manager.Steps();
  ASSERT_TRUE(steps.ok());
  ASSERT_EQ(steps->size(), 1u) << why;
  EXPECT_EQ(steps->at(0).step, 1);
  EXPECT_TRUE(steps->at(0).is_protected);
}

TEST_F(TieredManagerTest, NoGoodStepGoesForOneThatCannotBeRestored) {
  RunOk({0, 1, 2, 3}, [](TieredManager& manager, int64_t rank) -> Status {
    HF_RETURN_IF_ERROR(manager.Save(1, StateAt(1)).status());
    HF_RETURN_IF_ERROR(manager.WaitProtected());
    Tree tree = StateAt(2);
    if (rank == 0) tree.Add("log", Tree(1));
    ExpectRefused(manager, tree, {}, StatusCode::kFailedPrecondition,
                  "step 2 could not be restored");
    return Status();
  });
  RunOk({0, 1, 2, 3}, RestoreIs({1, "local", {}}));
}

TEST_F(TieredManagerTest, FilesOfAUserHaveNamesOfTheirOwn) {
  options_.local.directory = HostPath(0);
  auto manager = TieredManager::Make(options_, nullptr);
  ASSERT_TRUE(manager.ok()) << manager.status().ToString();
  TieredSaveOptions options;
  const std::map<std::string, std::string> fine = {{"loader/3.json", "{}"},
                                                   {"defaults", "x"},
                                                   {"a/checkpoint", "y"},
                                                   {"a/d/1", "z"}};
  options.files = fine;
  ASSERT_TRUE((*manager)->Save(1, StateAt(1), options).ok());
  ASSERT_TRUE((*manager)->WaitProtected().ok());
  for (const char* path : {"default/_METADATA",
                           "default/mine",
                           "default",
                           "_METADATA",
                           "_CHECKPOINT_METADATA",
                           "x/_CHECKPOINT_METADATA",
                           "_HOLDFAST_DIGESTS",
                           "_HOLDFAST_PART_0",
                           "manifest.ocdbt",
                           "d/0",
                           "commit_success.txt",
                           "orbax.checkpoint",
                           "checkpoint",
                           "ocdbt.process_0/manifest.ocdbt",
                           "array_metadatas/process_0",
                           "x/.zarray",
                           "_sharding",
                           "../x",
                           "a/../b",
                           "/etc/x",
                           "",
                           "a//b",
                           "7.orbax-checkpoint-tmp/x",
                           ".DS_Store"}) {
    options.files = {{path, "{}"}};
    ExpectRefused(**manager, StateAt(2), options, StatusCode::kInvalidArgument,
                  "files");
  }
  ASSERT_TRUE((*manager)->Restore(CheckState).ok());
  for (const auto& [path, content] : fine) {
    EXPECT_EQ(*(*manager)->ReadFile(path), content);
  }
}

TEST_F(TieredManagerTest, FilesOfAllRanksFitTogether) {
  const auto refused = [](TieredManager& manager, int64_t rank) -> Status {
    TieredSaveOptions options;
    options.files = {{"all.json", "same"},
                     {"rank/" + std::to_string(rank), "own"}};
    HF_RETURN_IF_ERROR(manager.Save(1, StateAt(1), options).status());
    HF_RETURN_IF_ERROR(manager.WaitProtected());
    options.files = {{"x", rank == 2 ? "another" : "one"}};
    ExpectRefused(manager, StateAt(2), options, StatusCode::kInvalidArgument,
                  "both have a file \"x\"");
    options.files = {{rank == 3 ? "y/z" : "y", "one"}};
    ExpectRefused(manager, StateAt(2), options, StatusCode::kInvalidArgument,
                  "is a directory");
    return Status();
  };
  RunOk({0, 1, 2, 3}, refused);
  RunOk({0, 1, 2, 3}, [](TieredManager& manager, int64_t) -> Status {
    HF_RETURN_IF_ERROR(manager.Restore(CheckState).status());
    for (const char* path : {"rank/0", "rank/3"}) {
      EXPECT_EQ(*manager.ReadFile(path), "own");
    }
    EXPECT_EQ(*manager.ReadFile("all.json"), "same");
    return Status();
  });
}

TEST_F(TieredManagerTest, DamageIsPassedOverAndAWrongQuestionIsNot) {
  options_.local.max_to_keep = 2;
  RunOk({0, 1, 2, 3}, SaveSteps({1, 2}));
  RunOk({0, 1, 2, 3}, [](TieredManager& manager, int64_t rank) -> Status {
    const auto refuse = [&](const Status& status) {
      return [&, status](const TierRestore& restore) {
        return rank == 3 && restore.step == 2 ? status : Status();
      };
    };
    const auto other = manager.Restore(refuse(DataLossError("bad bytes")));
    HF_RETURN_IF_ERROR(other.status());
    EXPECT_EQ(other->step, 1);
    EXPECT_THAT(other->notes.at(0), HasSubstr("bad bytes"));
    EXPECT_EQ(manager.Restore(refuse(InvalidArgumentError("no leaf \"w\"")))
                  .status()
                  .code(),
              StatusCode::kInvalidArgument);
    return Status();
  });
}

TEST_F(TieredManagerTest, WhatCannotBeRestoredIsNoFirstStart) {
  RunOk({0, 1, 2, 3}, [](TieredManager& manager, int64_t) -> Status {
    EXPECT_EQ(manager.Restore(CheckState).status().code(),
              StatusCode::kNotFound);
    return SaveSteps({1})(manager, 0);
  });
  RunOk({0, 1, 2, 3}, [](TieredManager& manager, int64_t) -> Status {
    const Status unread = manager
                              .Restore([](const TierRestore&) {
                                return DataLossError("bad bytes");
                              })
                              .status();
    EXPECT_EQ(unread.code(), StatusCode::kDataLoss);
    EXPECT_THAT(std::string(unread.message()), HasSubstr("bad bytes"));
    return Status();
  });
  fs::remove_all(HostPath(1));
  fs::remove_all(HostPath(2));
  RunOk({0, 1, 2, 3}, [](TieredManager& manager, int64_t) -> Status {
    EXPECT_EQ(manager.Restore(CheckState).status().code(),
              StatusCode::kDataLoss);
    EXPECT_EQ(manager.Restore(CheckState, 7).status().code(),
              StatusCode::kNotFound);
    return Status();
  });
}

TEST_F(TieredManagerTest, SpaceIsWhatTheParityPromises) {
  RunOk({0, 1, 2, 3}, [](TieredManager& manager, int64_t) -> Status {
    for (const int64_t step : {1, 2, 3}) {
      HF_RETURN_IF_ERROR(manager.Save(step, StateAt(step)).status());
    }
    return manager.Wait();
  });
  uint64_t data_bytes = 0;
  uint64_t parity_bytes = 0;
  for (int64_t host = 0; host < 4; ++host) {
    const std::string step = StepPathOf(host);
    EXPECT_THAT(step, HasSubstr("/3.1."));
    parity_bytes += fs::file_size(step + "/parity");
    for (const auto& entry :
         fs::recursive_directory_iterator(step + "/files")) {
      if (entry.is_regular_file()) data_bytes += entry.file_size();
    }
  }
  // n = 3 and m = 1. The sizes of this small state's parts differ by a few
  // blocks.
  EXPECT_LE(parity_bytes, data_bytes / 3 * 5 / 4);
}

}  // namespace
}  // namespace holdfast
