#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "engine/checkpoint/opened_checkpoint.h"
#include "engine/commit/commit.h"
#include "engine/commit/unfinished.h"
#include "holdfast/detail/commit.h"
#include "holdfast/pending_save.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

constexpr char kBegun[] =
    R"({"item_handlers": null, "metrics": {}, "performance_metrics": {}, )"
    R"("init_timestamp_nsecs": 5, "commit_timestamp_nsecs": null, )"
    R"("custom_metadata": {}})";

template <typename T>
T Taken(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().ToString();
  return std::move(result).value();
}

const CommitOptions kMarker = {.mode = CommitMode::kMarkerFile};
const CommitOptions kMarkerOver = {.overwrite = true,
                                   .mode = CommitMode::kMarkerFile};

class MarkerCommitTest : public testing::Test {
 protected:
  void MakeFinished(const std::string& text) {
    WriteTestFile(path_ + "/_METADATA", text);
    WriteTestFile(path_ + "/commit_success.txt", "x");
  }
  std::string Now() const { return ReadTestFile(path_ + "/_METADATA"); }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(root_)) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  ScratchDirectory scratch_;
  const std::string root_ = scratch_.path();
  const std::string path_ = root_ + "/7";
  const std::string aside_ = ReplacedName(path_);
};

TEST_F(MarkerCommitTest, IsWrittenInPlaceAndCountsWithTheMarker) {
  auto pending = PendingCheckpoint::Begin(Place(path_), kMarker);
  ASSERT_TRUE(pending.ok()) << pending.status().ToString();
  EXPECT_EQ((*pending)->directory(), path_);
  EXPECT_FALSE(*IsCheckpointFinalized(path_, CommitMode::kMarkerFile));
  WriteTestFile(path_ + "/commit_success.txt", "x");
  ASSERT_TRUE((*pending)->Commit().ok());
  pending->reset();
  EXPECT_TRUE(*IsCheckpointFinalized(path_, CommitMode::kMarkerFile));
}

TEST_F(MarkerCommitTest, RefusesWhatIsThereWithoutOverwrite) {
  fs::create_directories(path_);
  EXPECT_EQ(PendingCheckpoint::Begin(Place(path_), kMarker).status().message(),
            "Destination " + path_ + " already exists.");
}

TEST_F(MarkerCommitTest, AbortRemovesWhatItMade) {
  {
    auto pending = PendingCheckpoint::Begin(Place(path_), kMarker);
  }
  EXPECT_TRUE(fs::is_empty(root_));
}

TEST_F(MarkerCommitTest, OverwriteKeepsTheOldUntilTheNewIsComplete) {
  MakeFinished("old");
  {
    auto pending = PendingCheckpoint::Begin(Place(path_), kMarkerOver);
    ASSERT_TRUE(pending.ok()) << pending.status().ToString();
    EXPECT_EQ(ReadTestFile(aside_ + "/_METADATA"), "old");
    WriteTestFile(path_ + "/_METADATA", "half");
  }
  EXPECT_EQ(Now(), "old");  // the abort restored it
  auto pending = PendingCheckpoint::Begin(Place(path_), kMarkerOver);
  ASSERT_TRUE(pending.ok());
  MakeFinished("new");
  ASSERT_TRUE((*pending)->Commit().ok());
  EXPECT_EQ(Now(), "new");
  EXPECT_EQ(Names(), std::vector<std::string>{"7"});
}

TEST_F(MarkerCommitTest, TheNextSaveRecoversWhatACrashPutAside) {
  WriteTestFile(aside_ + "/_METADATA", "old");
  WriteTestFile(path_ + "/_CHECKPOINT_METADATA", kBegun);
  EXPECT_EQ(PendingCheckpoint::Begin(Place(path_), kMarker).status().code(),
            StatusCode::kAlreadyExists);  // the old one is restored
  EXPECT_EQ(Now(), "old");
}

TEST_F(MarkerCommitTest, CleanupRemovesAndRestoresOnlyLeftovers) {
  WriteTestFile(root_ + "/1.orbax-checkpoint-tmp/_METADATA", "x");
  WriteTestFile(root_ + "/2.orbax-checkpoint-tmp-1700000000/x", "x");
  WriteTestFile(root_ + "/3/_CHECKPOINT_METADATA", kBegun);
  WriteTestFile(root_ + "/4/_METADATA", "finished by an old Orbax");
  WriteTestFile(root_ + "/notes/mine.txt", "x");
  WriteTestFile(root_ + "/file.orbax-checkpoint-tmp", "x");
  fs::create_directory_symlink(root_ + "/4", root_ + "/5.orbax-checkpoint-tmp");
  WriteTestFile(aside_ + "/_METADATA", "old");
  MakeFinished("new");
  WriteTestFile(ReplacedName(root_ + "/8") + "/_METADATA", "old");
  auto living = PendingCheckpoint::Begin(Place(root_ + "/9"), {});
  ASSERT_TRUE(living.ok());

  auto cleaned = CleanupTemporaryPaths(root_, CommitMode::kRename);
  ASSERT_TRUE(cleaned.ok()) << cleaned.status().ToString();
  EXPECT_EQ(cleaned->removed,
            (std::vector<std::string>{
                root_ + "/1.orbax-checkpoint-tmp",
                root_ + "/2.orbax-checkpoint-tmp-1700000000", aside_}));
  EXPECT_EQ(cleaned->restored, std::vector<std::string>{root_ + "/8"});
  EXPECT_EQ(cleaned->in_use,
            std::vector<std::string>{root_ + "/9.orbax-checkpoint-tmp"});
  EXPECT_TRUE(fs::exists(root_ + "/3"));

  cleaned = CleanupTemporaryPaths(root_, CommitMode::kMarkerFile);
  ASSERT_TRUE(cleaned.ok());
  EXPECT_EQ(cleaned->removed, std::vector<std::string>{root_ + "/3"});
  EXPECT_EQ(Names(),
            (std::vector<std::string>{"4", "5.orbax-checkpoint-tmp", "7", "8",
                                      "9.orbax-checkpoint-tmp",
                                      "file.orbax-checkpoint-tmp", "notes"}));
}

TEST_F(MarkerCommitTest, WhatIsTemporaryDependsOnTheMode) {
  const std::string old_name = root_ + "/1.orbax-checkpoint-tmp-1700000000";
  fs::create_directories(old_name);
  WriteTestFile(path_ + "/_CHECKPOINT_METADATA", kBegun);
  EXPECT_TRUE(*IsTemporaryCheckpoint(old_name));
  EXPECT_TRUE(*IsTemporaryCheckpoint(path_));
  EXPECT_FALSE(*IsTemporaryCheckpoint(path_, CommitMode::kRename));
  EXPECT_TRUE(*IsTemporaryCheckpoint(path_, CommitMode::kMarkerFile));
  MakeFinished("x");
  for (const CommitMode mode :
       {CommitMode::kAuto, CommitMode::kRename, CommitMode::kMarkerFile}) {
    EXPECT_FALSE(*IsTemporaryCheckpoint(path_, mode));
    EXPECT_TRUE(*IsCheckpointFinalized(path_, mode));
  }
  EXPECT_FALSE(*IsTemporaryCheckpoint(root_ + "/nothing"));
  EXPECT_FALSE(*IsCheckpointFinalized(root_ + "/nothing"));
}

TEST_F(MarkerCommitTest, ReadersRefuseAnUnfinishedCheckpoint) {
  const Tree tree = Tree::Dict({{"a", 1}});
  SaveOptions options;
  options.commit_mode = CommitMode::kMarkerFile;
  ASSERT_TRUE(Save(root_ + "/6", tree, options).ok());
  auto pending =
      PendingSave::Begin(path_, {.commit_mode = CommitMode::kMarkerFile});
  ASSERT_TRUE(pending.ok()) << pending.status().ToString();
  ASSERT_TRUE((*pending)->SaveItem("", tree, {}).ok());
  // All of its data exists, and readers need not be told the mode.
  EXPECT_EQ(LoadCheckpoint(Place(path_)).status().message(),
            "Found incomplete checkpoint at " + path_ + ".");
  EXPECT_EQ((*OpenCheckpoint(Place(root_)))->info().step, 6);
  const auto steps = ListSteps(root_);
  ASSERT_EQ(steps->size(), 2u);
  EXPECT_TRUE((*steps)[0].committed);
  EXPECT_FALSE((*steps)[1].committed);
  EXPECT_NE((*steps)[1].why_not.find("incomplete"), std::string::npos);
  ASSERT_TRUE((*pending)->Commit({}).ok());
  EXPECT_EQ((*OpenCheckpoint(Place(root_)))->info().step, 7);
  EXPECT_TRUE(VerifyCheckpoint(Place(path_))->damages.empty());
  // If told that markers count, a reader requires one.
  fs::remove(path_ + "/commit_success.txt");
  EXPECT_EQ((*OpenCheckpoint(Place(root_)))->info().step, 7);
  EXPECT_EQ(
      (*OpenCheckpoint(Place(root_), {.commit_mode = CommitMode::kMarkerFile}))
          ->info()
          .step,
      6);
}

// The process dies in the middle of an overwrite: neither destructors nor
// cleanup have run.
TEST_F(MarkerCommitTest, ACrashedOverwriteLosesNothing) {
  SaveOptions options;
  options.commit_mode = CommitMode::kMarkerFile;
  const Tree old = Tree::Dict({{"a", 1}});
  ASSERT_TRUE(Save(path_, old, options).ok());
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto pending = PendingSave::Begin(
        path_, {.overwrite = true, .commit_mode = CommitMode::kMarkerFile});
    const bool saved =
        pending.ok() &&
        (*pending)->SaveItem("", Tree::Dict({{"a", 2}}), {}).ok();
    ::_exit(saved ? 0 : 1);
  }
  int exit_status = 0;
  ASSERT_EQ(::waitpid(child, &exit_status, 0), child);
  ASSERT_EQ(exit_status, 0);
  EXPECT_EQ(LoadCheckpoint(Place(path_)).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(Taken(CleanupTemporaryPaths(root_)).restored,
            std::vector<std::string>{path_});
  EXPECT_EQ(Taken(LoadCheckpoint(Place(path_))).tree, old);
  EXPECT_EQ(Names(), std::vector<std::string>{"7"});
}

unsigned PermissionsOf(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
}

TEST_F(MarkerCommitTest, DirectoriesGetExactlyTheirPermissions) {
  const mode_t before = ::umask(077);
  for (const CommitMode mode : {CommitMode::kRename, CommitMode::kMarkerFile}) {
    SaveOptions options;
    options.commit_mode = mode;
    options.directory_mode = 02771;
    options.overwrite = true;
    ASSERT_TRUE(Save(path_, Tree::Dict({{"a", 1}}), options).ok());
    for (const auto& entry : fs::recursive_directory_iterator(path_)) {
      if (!entry.is_directory()) continue;
      EXPECT_EQ(PermissionsOf(entry.path()), 02771u) << entry.path();
    }
    EXPECT_EQ(PermissionsOf(path_), 02771u);
  }
  ::umask(before);
}

TEST_F(MarkerCommitTest, ADirectoryIsPrivateFromTheStart) {
  auto pending =
      PendingCheckpoint::Begin(Place(path_), {.directory_mode = 0500});
  ASSERT_TRUE(pending.ok());
  EXPECT_EQ(PermissionsOf((*pending)->directory()), 0700u);
}

}  // namespace
}  // namespace holdfast
