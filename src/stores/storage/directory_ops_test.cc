#include "stores/storage/directory_ops.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "stores/storage/rename_call.h"
#include "stores/storage/replace_directory.h"
#include "twins/scratch_directory.h"

namespace holdfast::local {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(DirectoryOps, KindsOfPaths) {
  ScratchDirectory scratch;
  WriteTestFile(scratch / "file", "x");
  fs::create_directory(scratch / "dir");
  fs::create_symlink("dir", scratch / "link");
  fs::create_symlink("no", scratch / "dangling");
  ASSERT_EQ(::mkfifo((scratch / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(*GetPathKind(scratch / "no"), PathKind::kMissing);
  EXPECT_EQ(*GetPathKind(scratch / "file/no"), PathKind::kMissing);
  EXPECT_EQ(*GetPathKind(scratch / "file"), PathKind::kFile);
  EXPECT_EQ(*GetPathKind(scratch / "dir"), PathKind::kDirectory);
  EXPECT_EQ(*GetPathKind(scratch / "link"), PathKind::kSymlink);
  EXPECT_EQ(*GetPathKind(scratch / "dangling"), PathKind::kSymlink);
  EXPECT_EQ(*GetPathKind(scratch / "fifo"), PathKind::kOther);
}

TEST(DirectoryOps, CreateDirectoryNewNeverReuses) {
  ScratchDirectory scratch;
  EXPECT_EQ(CreateDirectoryNew(scratch / "d").code(), StatusCode::kOk);
  const Status again = CreateDirectoryNew(scratch / "d");
  EXPECT_EQ(again.code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(again.message()), HasSubstr(scratch / "d"));
  EXPECT_EQ(CreateDirectoryNew(scratch / "no/d").code(), StatusCode::kNotFound);
}

TEST(DirectoryOps, SyncDirectory) {
  ScratchDirectory scratch;
  EXPECT_EQ(SyncDirectory(scratch.path()).code(), StatusCode::kOk);
  EXPECT_EQ(SyncDirectory(scratch / "no").code(), StatusCode::kNotFound);
}

TEST(DirectoryOps, PublishMovesTheWholeDirectory) {
  ScratchDirectory scratch;
  WriteTestFile(scratch / "tmp/a/k", "x");
  ASSERT_EQ(PublishDirectory(scratch / "tmp/", scratch / "7").code(),
            StatusCode::kOk);
  EXPECT_EQ(ReadTestFile(scratch / "7/a/k"), "x");
  EXPECT_FALSE(fs::exists(scratch / "tmp"));
}

TEST(DirectoryOps, PublishNeverReplaces) {
  ScratchDirectory scratch;
  WriteTestFile(scratch / "tmp/k", "x");
  WriteTestFile(scratch / "file", "y");
  fs::create_directory(scratch / "empty");
  fs::create_symlink("no", scratch / "dangling");
  for (const char* target : {"file", "empty", "dangling"}) {
    EXPECT_EQ(PublishDirectory(scratch / "tmp", scratch / target).code(),
              StatusCode::kAlreadyExists);
  }
  EXPECT_EQ(ReadTestFile(scratch / "tmp/k"), "x");
  EXPECT_EQ(ReadTestFile(scratch / "file"), "y");
  EXPECT_EQ(PublishDirectory(scratch / "file", scratch / "7").code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(PublishDirectory(scratch / "no", scratch / "7").code(),
            StatusCode::kNotFound);
}

TEST(DirectoryOps, OnlyOnePublisherWins) {
  ScratchDirectory scratch;
  std::atomic<int> winner_count{0}, exists_count{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    const std::string source = scratch / ("tmp" + std::to_string(i));
    WriteTestFile(source + "/k", "x");
    threads.emplace_back([&, source] {
      const Status status = PublishDirectory(source, scratch / "7");
      winner_count += status.ok();
      exists_count += status.code() == StatusCode::kAlreadyExists;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(winner_count, 1);
  EXPECT_EQ(exists_count, 7);
}

TEST(DirectoryOps, ReplaceDirectoryKeepsTheOldOneUnderItsNewName) {
  ScratchDirectory scratch;
  WriteTestFile(scratch / "new/k", "new");
  WriteTestFile(scratch / "7/k", "old");
  const auto at =
      ReplaceDirectory(scratch / "new", scratch / "7/", scratch / "aside");
  ASSERT_TRUE(at.ok()) << at.status().ToString();
  EXPECT_EQ(ReadTestFile(scratch / "7/k"), "new");
  EXPECT_EQ(ReadTestFile(*at + "/k"), "old");
  EXPECT_EQ(ReplaceDirectory(scratch / "no", scratch / "7", scratch / "aside")
                .status()
                .code(),
            StatusCode::kNotFound);
  EXPECT_EQ(ReadTestFile(scratch / "7/k"), "new");
}

TEST(RenameNew, ReplacesNothing) {
  ScratchDirectory scratch;
  const auto rename = [&](const char* from, const char* to) {
    return RenameNew(AT_FDCWD, (scratch / from).c_str(),
                     (scratch / to).c_str());
  };
  WriteTestFile(scratch / "file", "x");
  WriteTestFile(scratch / "other", "y");
  WriteTestFile(scratch / "directory/k", "x");
  fs::create_directory(scratch / "empty");
  for (const char* from : {"file", "directory"}) {
    for (const char* to : {"other", "empty"}) {
      EXPECT_EQ(rename(from, to), EEXIST) << from << " to " << to;
    }
  }
  EXPECT_EQ(rename("file", "7"), 0);
  EXPECT_EQ(rename("directory", "8"), 0);
  EXPECT_EQ(rename("no", "9"), ENOENT);
  EXPECT_EQ(ReadTestFile(scratch / "7"), "x");
  EXPECT_EQ(ReadTestFile(scratch / "8/k"), "x");
}

TEST(DirectoryOps, RemoveTreeRemovesAllOfItAndNothingElse) {
  ScratchDirectory scratch;
  WriteTestFile(scratch / "keep/k", "x");
  WriteTestFile(scratch / "t/a/b/c/k", "x");
  WriteTestFile(scratch / "t/.hidden", "x");
  fs::create_directory(scratch / "t/empty");
  fs::create_symlink("../keep", scratch / "t/dir");
  fs::create_symlink("../../keep/k", scratch / "t/a/file");
  ASSERT_EQ(RemoveTree(scratch / "t/").code(), StatusCode::kOk);
  EXPECT_FALSE(fs::exists(scratch / "t"));
  EXPECT_EQ(ReadTestFile(scratch / "keep/k"), "x");
  EXPECT_EQ(RemoveTree(scratch / "t").code(), StatusCode::kNotFound);
}

TEST(DirectoryOps, RemoveTreeRefusesWhatIsNoDirectory) {
  ScratchDirectory scratch;
  WriteTestFile(scratch / "keep/k", "x");
  fs::create_symlink("keep", scratch / "link");
  for (const char* name : {"link", "link/", "keep/k"}) {
    EXPECT_EQ(RemoveTree(scratch / name).code(),
              StatusCode::kFailedPrecondition)
        << name;
  }
  for (const std::string& path :
       {std::string(), std::string("/"), std::string("//"), std::string("."),
        scratch / "keep/..", scratch / "keep/."}) {
    EXPECT_EQ(RemoveTree(path).code(), StatusCode::kInvalidArgument) << path;
  }
  EXPECT_EQ(ReadTestFile(scratch / "keep/k"), "x");
}

TEST(DirectoryOps, NobodysFilesAreNotListedAndGoWithTheRest) {
  ScratchDirectory scratch;
  for (const char* name : {"t/a", "t/.DS_Store", "t/._a", "t/.nfs01",
                           "t/.ipynb_checkpoints/a", "t/@eaDir/a",
                           // Only a file may have this name; a directory with
                           // it is listed.
                           "t/Thumbs.db/a"}) {
    WriteTestFile(scratch / name, "x");
  }
  WriteTestFile(scratch / "t/lost+found", "x");
  const auto names = ListDirectory(scratch / "t");
  ASSERT_TRUE(names.ok());
  EXPECT_THAT(*names, ElementsAre("Thumbs.db", "a", "lost+found"));
  ASSERT_TRUE(RemoveTree(scratch / "t").ok());
  EXPECT_FALSE(fs::exists(scratch / "t"));
}

TEST(DirectoryOps, ListDirectoryIsSorted) {
  ScratchDirectory scratch;
  WriteTestFile(scratch / "b", "x");
  WriteTestFile(scratch / ".a", "x");
  WriteTestFile(scratch / "B/k", "x");
  const auto names = ListDirectory(scratch.path());
  ASSERT_TRUE(names.ok());
  EXPECT_THAT(*names, ElementsAre(".a", "B", "b"));
  EXPECT_EQ(ListDirectory(scratch / "no").status().code(),
            StatusCode::kNotFound);
}

}  // namespace
}  // namespace holdfast::local
