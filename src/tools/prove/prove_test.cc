#include "holdfast/tools/prove.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "holdfast/holdfast.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

// The program that the tests prove: saves three steps. As "unsynced" it has a
// bug of the kind that prove-crash looks for.
TEST(Saver, DISABLED_Acts) {
  const char* const root = std::getenv("HOLDFAST_PROVE_ROOT");
  SaveOptions options;
  options.sync = std::string_view(std::getenv("SAVER_ACT")) != "unsynced";
  for (int step = 0; step < 3; ++step) {
    const Tree tree = Tree::Dict({{"step", step}, {"text", "abc"}});
    ASSERT_TRUE(
        Save(std::string(root) + "/" + std::to_string(step), tree, options)
            .ok());
    CrashMark("saved " + std::to_string(step));
  }
}

// Runs Saver.Acts as the program. LeakSanitizer is off, because it does not
// work in a traced program.
ProveOptions Saver(const std::string& act) {
  const std::string self = fs::read_symlink("/proc/self/exe");
  return {.command = {"env", "ASAN_OPTIONS=detect_leaks=0", "SAVER_ACT=" + act,
                      self, "--gtest_filter=Saver.*",
                      "--gtest_also_run_disabled_tests", "--gtest_brief=1"}};
}
ProveOptions Shell(const std::string& text, const std::string& check) {
  ProveOptions options;
  options.command = {"sh", "-ec", "cd {root}; " + text};
  options.check = check;
  return options;
}

class ProveCrashTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto proof = ProveCrash(Shell("true", "true {root}"));
    if (proof.status().code() == StatusCode::kUnimplemented) {
      GTEST_SKIP() << proof.status().ToString();
    }
  }
};

bool Names(const CrashProof& proof, CrashProblem problem,
           const std::string& path) {
  for (const CrashRisk& risk : proof.risks) {
    if (risk.problem != problem) continue;
    for (const MissingSync& sync : risk.missing) {
      if (sync.path == path) return true;
    }
  }
  return false;
}

TEST_F(ProveCrashTest, FindsNothingInOurs) {
  const auto proof = ProveCrash(Saver("synced"));
  ASSERT_TRUE(proof.ok()) << proof.status().ToString();
  EXPECT_TRUE(proof->risks.empty()) << proof->risks[0].detail;
  EXPECT_EQ(proof->checkpoints, (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_GT(proof->state_count, 8 * proof->change_count);
  EXPECT_EQ(proof->state_count, proof->possible_state_count);
  EXPECT_GT(proof->sync_count, 30u);
}

TEST_F(ProveCrashTest, FindsASaveWithoutSyncs) {
  const auto proof = ProveCrash(Saver("unsynced"));
  ASSERT_TRUE(proof.ok()) << proof.status().ToString();
  EXPECT_EQ(proof->sync_count, 3u);  // all of them sync the root
  EXPECT_FALSE(Names(*proof, CrashProblem::kLost, "."));
  EXPECT_TRUE(Names(*proof, CrashProblem::kDamaged, "STEP"));
  EXPECT_TRUE(Names(*proof, CrashProblem::kDamaged, "STEP/_METADATA"));
}

TEST_F(ProveCrashTest, FindsTheOneSyncThatIsLeftOut) {
  ProveOptions options = Saver("synced");
  options.without_sync = {"."};
  const auto parent = ProveCrash(options);
  ASSERT_TRUE(parent.ok()) << parent.status().ToString();
  EXPECT_GE(parent->dropped_sync_count, 3u);
  ASSERT_EQ(parent->risks.size(), 1u);
  EXPECT_EQ(parent->risks[0].problem, CrashProblem::kLost);
  ASSERT_EQ(parent->risks[0].missing.size(), 1u);
  EXPECT_EQ(parent->risks[0].missing[0].path, ".");
  EXPECT_TRUE(parent->risks[0].missing[0].is_directory);
  options.without_sync = {"*/_METADATA"};
  const auto metadata = ProveCrash(options);
  ASSERT_TRUE(metadata.ok());
  EXPECT_EQ(metadata->dropped_sync_count, 3u);
  ASSERT_EQ(metadata->risks.size(), 1u);
  EXPECT_EQ(metadata->risks[0].missing[0].path, "STEP/_METADATA");
}

TEST_F(ProveCrashTest, TakesASample) {
  ProveOptions options = Saver("unsynced");
  options.state_count_max = 50;
  uint64_t call_count = 0;
  options.on_state = [&](uint64_t done, uint64_t total) {
    EXPECT_EQ(done, ++call_count);
    EXPECT_EQ(total, 50u);
  };
  const auto proof = ProveCrash(options);
  ASSERT_TRUE(proof.ok());
  EXPECT_EQ(proof->state_count, 50u);
  EXPECT_EQ(call_count, 50u);
  EXPECT_GT(proof->possible_state_count, 500u);
}

TEST_F(ProveCrashTest, AsksTheUsersProgram) {
  // If the file exists, it must be complete.
  const std::string check = "test ! -e {root}/a || grep -qx whole {root}/a";
  const std::string save = "echo whole > b; ";
  const auto bad = ProveCrash(Shell(save + "mv b a", check));
  ASSERT_TRUE(bad.ok()) << bad.status().ToString();
  ASSERT_EQ(bad->risks.size(), 1u);
  EXPECT_EQ(bad->risks[0].problem, CrashProblem::kCheck);
  ASSERT_EQ(bad->risks[0].missing.size(), 1u);
  EXPECT_EQ(bad->risks[0].missing[0].path, "a");
  const auto good = ProveCrash(Shell(save + "sync b; mv b a", check));
  ASSERT_TRUE(good.ok());
  EXPECT_TRUE(good->risks.empty());
}

TEST_F(ProveCrashTest, TellsTheUsersProgramTheMarks) {
  const std::string save =
      "echo 1 > a; sync; rmdir '.holdfast-crash-mark 1' "
      "2> /dev/null || true";
  const std::string check =
      "test -z \"$HOLDFAST_PROVE_MARKS\" || grep -q 1 {root}/a";
  const auto good = ProveCrash(Shell(save, check));
  ASSERT_TRUE(good.ok()) << good.status().ToString();
  EXPECT_TRUE(good->risks.empty());
  const auto bad =
      ProveCrash(Shell("echo 1 > a; rmdir "
                       "'.holdfast-crash-mark 1' 2> /dev/null "
                       "|| true",
                       check));
  ASSERT_TRUE(bad.ok());
  EXPECT_FALSE(bad->risks.empty());
}

TEST_F(ProveCrashTest, FailsWithReasons) {
  EXPECT_EQ(ProveCrash({}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ProveCrash(Shell("exit 3", "")).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(ProveCrash(Shell("echo x > a", "")).status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(ProveCrash(Shell("echo x > a", "false {root}")).status().code(),
            StatusCode::kFailedPrecondition);
  ProveOptions nowhere = Shell("true", "true {root}");
  nowhere.root = "/no/such";
  EXPECT_EQ(ProveCrash(nowhere).status().code(), StatusCode::kNotFound);
}

TEST_F(ProveCrashTest, ObeysACancel) {
  std::atomic<bool> cancel{false};
  ProveOptions options = Saver("synced");
  options.cancel = &cancel;
  options.on_state = [&](uint64_t, uint64_t) { cancel = true; };
  EXPECT_EQ(ProveCrash(options).status().code(), StatusCode::kCancelled);
}

TEST(ProveLibraryCommand, KnowsItsLibraries) {
  const auto command = ProveLibraryCommand("python3", "numpy");
  ASSERT_TRUE(command.ok());
  EXPECT_EQ(command->at(0), "python3");
  EXPECT_EQ(ProveLibraryCommand("python3", "pickle").status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace holdfast
