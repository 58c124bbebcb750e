#include "stores/place/directory_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "stores/place/file_walk.h"
#include "stores/place/well_known_names.h"
#include "twins/mem_bucket.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DirectoryOpsTest : public ::testing::Test {
 protected:
  MemBucketForTest mem_;
};

TEST_F(DirectoryOpsTest, KindsOfWhatIsThere) {
  mem_.Put("a/b/c", "x");
  mem_.Put("a-b", "x");
  mem_.Put("marked/", "");
  EXPECT_EQ(GetPathKind(Place("mem://test/a")).value(), PathKind::kDirectory);
  EXPECT_EQ(GetPathKind(Place("mem://test/a/b")).value(), PathKind::kDirectory);
  EXPECT_EQ(GetPathKind(Place("mem://test/a/b/c")).value(), PathKind::kFile);
  EXPECT_EQ(GetPathKind(Place("mem://test/a-b")).value(), PathKind::kFile);
  EXPECT_EQ(GetPathKind(Place("mem://test/a/")).value(), PathKind::kDirectory);
  EXPECT_EQ(GetPathKind(Place("mem://test/marked")).value(),
            PathKind::kDirectory);
  EXPECT_EQ(GetPathKind(Place("mem://test/x")).value(), PathKind::kMissing);
  EXPECT_EQ(GetPathKind(Place("mem://test")).value(), PathKind::kDirectory);
  EXPECT_TRUE(LeadsToDirectory(Place("mem://test/a")).value());
  EXPECT_FALSE(LeadsToDirectory(Place("mem://test/a-b")).value());
  EXPECT_TRUE(LeadsToAnything(Place("mem://test/a-b")).value());
  EXPECT_FALSE(LeadsToAnything(Place("mem://test/a-c")).value());
}

TEST_F(DirectoryOpsTest, ListsNamesInOrder) {
  for (const char* key : {"d/b/x", "d/b/y", "d/a", "d/b-c", "d/", "d/e//f"}) {
    mem_.Put(key, "x");
  }
  EXPECT_THAT(ListDirectory(Place("mem://test/d")).value(),
              ElementsAre("a", "b", "b-c", "e"));
  mem_.Put("empty/", "");
  EXPECT_THAT(ListDirectory(Place("mem://test/empty")).value(), IsEmpty());
  EXPECT_EQ(ListDirectory(Place("mem://test/none")).status().code(),
            StatusCode::kNotFound);
}

TEST_F(DirectoryOpsTest, ListsTreesOverManyPages) {
  for (int i = 0; i < 2500; ++i) mem_.Put("d/f" + std::to_string(i), "xy");
  mem_.Put("d/s/t/u", "xyz");
  mem_.Put("d/s/v", "");
  mem_.Put("d/m/", "");
  const DirectoryTree tree = ListTree(Place("mem://test/d")).value();
  EXPECT_EQ(tree.files.size(), 2502u);
  EXPECT_THAT(tree.directories, ElementsAre("s/t", "s", "m"));
  std::map<std::string, uint64_t> sizes;
  ASSERT_TRUE(WalkFiles(Place("mem://test/d"), [&](const WalkedFile& file) {
                sizes[file.path] = file.byte_count;
              }).ok());
  EXPECT_EQ(sizes.size(), 2502u);
  EXPECT_EQ(sizes["s/t/u"], 3u);
  EXPECT_EQ(sizes["f7"], 2u);
  EXPECT_EQ(ListTree(Place("mem://test/x")).status().code(),
            StatusCode::kNotFound);
}

TEST_F(DirectoryOpsTest, ANewDirectoryNeedsAFreeName) {
  mem_.Put("d/x", "1");
  EXPECT_EQ(CreateDirectoryNew(Place("mem://test/d")).code(),
            StatusCode::kAlreadyExists);
  EXPECT_EQ(CreateDirectoryNew(Place("mem://test/d/x")).code(),
            StatusCode::kAlreadyExists);
  EXPECT_TRUE(CreateDirectoryNew(Place("mem://test/e")).ok());
  EXPECT_EQ(mem_.memory->object_count(), 1u);
}

TEST_F(DirectoryOpsTest, RemovesMarkersFirstAndLeasesLast) {
  for (const char* key :
       {"r/1/commit_success.txt", "r/1/d/x", "r/1/_HOLDFAST_SAVE", "r/2/a",
        "r/2/commit_success.txt", "rest"}) {
    mem_.Put(key, key);
  }
  // No marker outlives another file, whichever request the process dies at.
  for (uint64_t at = 1; at < 20; ++at) {
    MemBucketForTest mem;
    for (const char* key :
         {"r/commit_success.txt", "r/a", "r/d/b", "r/_HOLDFAST_SAVE"}) {
      mem.Put(key, key);
    }
    mem.bucket->SetFaults({.fail_at = at, .dies = true});
    const Status removed = RemoveTree(Place("mem://test/r"));
    const bool has_all = mem.Has("r/a") && mem.Has("r/d/b");
    EXPECT_TRUE(has_all || !mem.Has("r/commit_success.txt")) << at;
    EXPECT_TRUE(mem.Has("r/_HOLDFAST_SAVE") || !mem.Has("r/a")) << at;
    if (removed.ok()) {
      EXPECT_EQ(mem.memory->object_count(), 0u);
      break;
    }
  }
}

TEST_F(DirectoryOpsTest, RemovesThousandsInBatches) {
  for (int i = 0; i < 2100; ++i) mem_.Put("d/" + std::to_string(i), "");
  mem_.Put("d.txt", "stays");
  mem_.Put("e/x", "stays");
  ASSERT_TRUE(RemoveTree(Place("mem://test/d")).ok());
  EXPECT_EQ(mem_.memory->object_count(), 2u);
  EXPECT_EQ(mem_.bucket->counters().of(BucketRequest::kDeleteAll), 3u);
  EXPECT_EQ(RemoveTree(Place("mem://test/d")).code(), StatusCode::kNotFound);
  EXPECT_EQ(RemoveTree(Place("mem://test/d.txt")).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(RemoveTree(Place("mem://test")).code(),
            StatusCode::kInvalidArgument);
}

TEST_F(DirectoryOpsTest, RemovesAllButSome) {
  for (const char* key : {"d/_HOLDFAST_SAVE", "d/a", "d/b/_HOLDFAST_SAVE"}) {
    mem_.Put(key, "");
  }
  ASSERT_TRUE(RemoveAllBut(Place("mem://test/d"), {"_HOLDFAST_SAVE"}).ok());
  EXPECT_TRUE(mem_.Has("d/_HOLDFAST_SAVE"));
  EXPECT_EQ(mem_.memory->object_count(), 1u);
  EXPECT_TRUE(RemoveAllBut(Place("mem://test/d"), {"_HOLDFAST_SAVE"}).ok());
}

TEST_F(DirectoryOpsTest, PublishMovesAllButTheLease) {
  for (const char* key : {"a/x", "a/d/y", "a/commit_success.txt",
                          "a/_HOLDFAST_SAVE", "b/_HOLDFAST_SAVE"}) {
    mem_.Put(key, key);
  }
  ASSERT_TRUE(
      PublishDirectory(Place("mem://test/a"), Place("mem://test/b")).ok());
  EXPECT_EQ(mem_.Content("b/x"), "a/x");
  EXPECT_EQ(mem_.Content("b/d/y"), "a/d/y");
  EXPECT_EQ(mem_.Content("b/commit_success.txt"), "a/commit_success.txt");
  EXPECT_EQ(mem_.Content("a/_HOLDFAST_SAVE"), "a/_HOLDFAST_SAVE");
  EXPECT_EQ(mem_.Content("b/_HOLDFAST_SAVE"), "b/_HOLDFAST_SAVE");
  EXPECT_EQ(mem_.memory->object_count(), 5u);
}

TEST_F(DirectoryOpsTest, PublishRefusesWhatIsInTheWay) {
  mem_.Put("a/x", "");
  mem_.Put("b/y", "");
  const Status status =
      PublishDirectory(Place("mem://test/a"), Place("mem://test/b"));
  EXPECT_EQ(status.code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(status.ToString(), HasSubstr("b/y"));
  EXPECT_EQ(
      PublishDirectory(Place("mem://test/none"), Place("mem://test/c")).code(),
      StatusCode::kNotFound);
  EXPECT_EQ(
      PublishDirectory(Place("mem://test/a/x"), Place("mem://test/c")).code(),
      StatusCode::kFailedPrecondition);
  EXPECT_EQ(
      PublishDirectory(Place("mem://test/a"), Place("mem://test/a/c")).code(),
      StatusCode::kInvalidArgument);
  EXPECT_EQ(PublishDirectory(Place("mem://test/a"), Place("/tmp/x")).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(
      ExchangeDirectories(Place("mem://test/a"), Place("mem://test/b")).code(),
      StatusCode::kUnimplemented);
}

// One of the two names always has all files and a marker, whichever request the
// process dies at.
TEST_F(DirectoryOpsTest, PublishLeavesOneWholeCheckpointWhereverItDies) {
  const std::vector<std::string> names = {"commit_success.txt", "d/1", "d/2",
                                          "manifest.ocdbt"};
  bool is_done = false;
  for (uint64_t at = 1; !is_done; ++at) {
    ASSERT_LT(at, 40u);
    for (const bool acts : {false, true}) {
      MemBucketForTest mem;
      for (const std::string& name : names) mem.Put("a/" + name, name);
      mem.bucket->SetFaults({.fail_at = at, .acts = acts, .dies = true});
      is_done =
          PublishDirectory(Place("mem://test/a"), Place("mem://test/b")).ok();
      int whole_count = 0;
      for (const char* directory : {"a/", "b/"}) {
        const bool is_whole = std::all_of(
            names.begin(), names.end(),
            [&](const std::string& name) { return mem.Has(directory + name); });
        whole_count += is_whole;
        const bool is_marked =
            mem.Has(std::string(directory) + "commit_success.txt");
        EXPECT_EQ(is_marked, is_whole) << directory << " at " << at;
      }
      EXPECT_GE(whole_count, 1) << "at " << at;
    }
  }
}

}  // namespace
}  // namespace holdfast
