#include "engine/commit/commit.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

class CommitTest : public testing::Test {
 protected:
  static void Touch(const std::string& path) { std::ofstream(path) << "x"; }

  ScratchDirectory scratch_;
  const std::string root_ = scratch_.path();
  const std::string path_ = root_ + "/ckpt";
};

TEST_F(CommitTest, ExistsOnlyAfterCommit) {
  auto pending = PendingCheckpoint::Begin(Place(path_));
  ASSERT_TRUE(pending.ok()) << pending.status().ToString();
  Touch((*pending)->directory() + "/_METADATA");
  EXPECT_FALSE(fs::exists(path_));
  ASSERT_TRUE((*pending)->Commit().ok());
  EXPECT_TRUE(fs::exists(path_ + "/_METADATA"));
  EXPECT_FALSE(fs::exists((*pending)->directory()));
}

TEST_F(CommitTest, AbandonedLeavesNothing) {
  {
    auto pending = PendingCheckpoint::Begin(Place(path_));
    ASSERT_TRUE(pending.ok());
    Touch((*pending)->directory() + "/half");
  }
  EXPECT_TRUE(fs::is_empty(root_));
}

TEST_F(CommitTest, OneSaveAtATime) {
  auto first = PendingCheckpoint::Begin(Place(path_));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(PendingCheckpoint::Begin(Place(path_)).status().code(),
            StatusCode::kAlreadyExists);
  EXPECT_TRUE(fs::exists((*first)->directory()));
}

TEST_F(CommitTest, RemovesWhatADeadSaveLeft) {
  fs::create_directories(path_ + ".orbax-checkpoint-tmp/d");
  Touch(path_ + ".orbax-checkpoint-tmp/d/old");
  auto pending = PendingCheckpoint::Begin(Place(path_));
  ASSERT_TRUE(pending.ok());
  EXPECT_TRUE(fs::is_empty((*pending)->directory()));
}

TEST_F(CommitTest, DestinationThatAppearsMeanwhileSurvives) {
  auto pending = PendingCheckpoint::Begin(Place(path_));
  ASSERT_TRUE(pending.ok());
  fs::create_directories(path_);
  Touch(path_ + "/somebody_elses");
  EXPECT_EQ((*pending)->Commit().code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(fs::exists(path_ + "/somebody_elses"));
}

TEST_F(CommitTest, OverwriteReplacesACheckpointOnly) {
  fs::create_directories(path_);
  Touch(path_ + "/_METADATA");
  auto pending = PendingCheckpoint::Begin(Place(path_), {.overwrite = true});
  ASSERT_TRUE(pending.ok()) << pending.status().ToString();
  Touch((*pending)->directory() + "/new");
  ASSERT_TRUE((*pending)->Commit().ok());
  EXPECT_TRUE(fs::exists(path_ + "/new"));
  EXPECT_FALSE(fs::exists(path_ + "/_METADATA"));
  EXPECT_EQ(PendingCheckpoint::Begin(Place(path_), {.overwrite = true})
                .status()
                .code(),
            StatusCode::kFailedPrecondition);  // "new" is not a checkpoint
}

TEST_F(CommitTest, AnEmptyDirectoryIsTakenWhereThatIsAsked) {
  fs::create_directories(path_);
  EXPECT_EQ(PendingCheckpoint::Begin(Place(path_)).status().code(),
            StatusCode::kAlreadyExists);
  const CommitOptions options{.takes_empty_directory = true};
  auto pending = PendingCheckpoint::Begin(Place(path_), options);
  ASSERT_TRUE(pending.ok()) << pending.status().ToString();
  Touch((*pending)->directory() + "/_METADATA");
  // A file that appears in the meantime is kept, even a hidden one.
  Touch(path_ + "/.somebody_elses");
  EXPECT_EQ((*pending)->Commit().code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(fs::exists(path_ + "/.somebody_elses"));
  pending->reset();
  EXPECT_FALSE(PendingCheckpoint::Begin(Place(path_), options).ok());
  fs::remove(path_ + "/.somebody_elses");
  pending = PendingCheckpoint::Begin(Place(path_), options);
  ASSERT_TRUE(pending.ok());
  Touch((*pending)->directory() + "/_METADATA");
  ASSERT_TRUE((*pending)->Commit().ok());
  EXPECT_TRUE(fs::exists(path_ + "/_METADATA"));
}

// A directory that took the place of a running save's directory must be neither
// published nor removed.
TEST_F(CommitTest, WhatSomebodyHasPutInItsPlaceIsNotPublished) {
  auto pending = PendingCheckpoint::Begin(Place(path_));
  ASSERT_TRUE(pending.ok());
  const std::string temporary = (*pending)->directory();
  fs::remove_all(temporary);
  fs::create_directories(temporary);
  Touch(temporary + "/of_a_rival");
  EXPECT_EQ((*pending)->Commit().code(), StatusCode::kFailedPrecondition);
  pending->reset();
  EXPECT_TRUE(fs::exists(temporary + "/of_a_rival"));
  EXPECT_FALSE(fs::exists(path_));
}

// One save is committed in place, while another save to the same path uses a
// temporary directory.
TEST_F(CommitTest, ASaveThatIsWrittenInPlaceIsNotReplaced) {
  fs::create_directories(path_);
  Touch(path_ + "/_METADATA");
  auto renamed = PendingCheckpoint::Begin(Place(path_), {.overwrite = true});
  ASSERT_TRUE(renamed.ok());
  auto in_place = PendingCheckpoint::Begin(
      Place(path_), {.overwrite = true, .mode = CommitMode::kMarkerFile});
  ASSERT_TRUE(in_place.ok());
  Touch(path_ + "/half");
  EXPECT_EQ((*renamed)->Commit().code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(fs::exists(path_ + "/half"));
}

TEST_F(CommitTest, ASaveThatHasEndedKeepsNobodyOut) {
  auto first = PendingCheckpoint::Begin(Place(path_));
  ASSERT_TRUE(first.ok());
  Touch((*first)->directory() + "/_METADATA");
  ASSERT_TRUE((*first)->Commit().ok());
  auto second = PendingCheckpoint::Begin(Place(path_), {.overwrite = true});
  ASSERT_TRUE(second.ok()) << second.status().ToString();
  EXPECT_TRUE((*second)->Commit().ok());
}

TEST_F(CommitTest, RefusesNamesThatMeanTemporary) {
  EXPECT_EQ(PendingCheckpoint::Begin(Place(path_ + ".orbax-checkpoint-tmp"))
                .status()
                .code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(PendingCheckpoint::Begin(Place("/")).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(CommitTest, MakesMissingParents) {
  const std::string deep = root_ + "/a/b/c";
  auto pending = PendingCheckpoint::Begin(Place(deep));
  ASSERT_TRUE(pending.ok()) << pending.status().ToString();
  ASSERT_TRUE((*pending)->Commit().ok());
  EXPECT_TRUE(fs::is_directory(deep));
  Touch(root_ + "/file");
  EXPECT_EQ(PendingCheckpoint::Begin(Place(root_ + "/file/x")).status().code(),
            StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace holdfast
