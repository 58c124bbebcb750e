#include "stores/place/place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "stores/place/directory_ops.h"
#include "stores/place/look.h"
#include "stores/storage/url_path.h"
#include "twins/mem_bucket.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;

TEST(PlaceTest, NamesAreJoinedAndTakenOff) {
  const Place local("/a/b");
  EXPECT_EQ((local / "c").path(), "/a/b/c");
  EXPECT_EQ((local / "").path(), "/a/b");
  EXPECT_EQ((Place("/") / "c").path(), "/c");
  EXPECT_EQ(local.parent().path(), "/a");
  EXPECT_EQ(local.name(), "b");
  EXPECT_TRUE(local.can_rename());
  EXPECT_EQ(local.InBucket().status().code(), StatusCode::kInvalidArgument);

  MemBucketForTest mem;
  const Place remote("mem://test/a/./b/");
  EXPECT_EQ(remote.path(), "mem://test/a/b");
  EXPECT_EQ(remote.InBucket()->key, "a/b");
  EXPECT_EQ((remote / "c").InBucket()->key, "a/b/c");
  EXPECT_EQ(remote.parent().parent().InBucket()->key, "");
  EXPECT_EQ(remote.parent().parent().parent().path(), "mem://test");
  EXPECT_EQ((Place("mem://test") / "c").InBucket()->key, "c");
  EXPECT_FALSE(remote.can_rename());
}

// Escapes are decoded only in the URL that the user wrote, not in names that
// are joined to it.
TEST(PlaceTest, ANameThatIsJoinedIsNoPieceOfAUrl) {
  const Place place("http://host/a%20b");
  EXPECT_EQ(place.InBucket()->key, "a b");
  EXPECT_EQ((place / "c%20d").InBucket()->key, "a b/c%20d");
}

TEST(PlaceTest, AUrlThatLeadsNowhereSaysSoWhenItIsUsed) {
  const Place place = Place("nowhere://b/a") / "x";
  EXPECT_EQ(GetPathKind(place).status().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(place.parent().OpenStore()->Read("x").status().code(),
            StatusCode::kUnimplemented);
}

// If these paths were accepted, files would be written to a directory called
// "~" or "file:".
TEST(PlaceTest, PathsThatAShellOrABrowserKnowsAreRefused) {
  for (const std::string path :
       {"~", "~/run", "file:///run", "file://host/a"}) {
    for (const Place& place : {Place(path), Place(path).Absolute() / "x"}) {
      const Status status = GetPathKind(place).status();
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << path;
      EXPECT_THAT(status.message(), testing::HasSubstr(path));
      EXPECT_EQ(place.OpenStore()->Write("x", "y").code(),
                StatusCode::kInvalidArgument);
    }
    EXPECT_EQ(GetPathKind(Place(AbsolutePath(path))).status().code(),
              StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(Place("./~/run").Absolute().name(), "run");
  EXPECT_FALSE(Place("~run").is_remote());
}

TEST(PlaceTest, PlacesMadeFromOneShareItsLookOnAnyThread) {
  MemBucketForTest mem;
  mem.Put("c/state/_METADATA", "tree");
  mem.Put("other", "o");
  const LookScope scope(Place("mem://test/c"));
  const Place state = scope.place() / "state";
  mem.bucket->ResetCounters();
  std::thread([&] {
    EXPECT_EQ(GetPathKind(state).value(), PathKind::kDirectory);
    EXPECT_THAT(ListDirectory(state).value(), ElementsAre("_METADATA"));
    EXPECT_EQ(state.OpenStore()->Read("_METADATA").value().view(), "tree");
  }).join();
  EXPECT_EQ(mem.bucket->counters().round_trips, 2u);  // a list and a batch
  EXPECT_EQ(state.parent().look(), scope.place().look());
  EXPECT_EQ(scope.place().parent().look(), nullptr);
  EXPECT_EQ(GetPathKind(scope.place().parent() / "other").value(),
            PathKind::kFile);
}

}  // namespace
}  // namespace holdfast
