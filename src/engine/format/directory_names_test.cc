#include "engine/format/directory_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast {
namespace {

using testing::HasSubstr;

TEST(DirectoryNames, TemporaryNamesOldAndNew) {
  EXPECT_EQ(TemporaryName("7"), "7.orbax-checkpoint-tmp");
  EXPECT_TRUE(IsTemporaryName("7.orbax-checkpoint-tmp"));
  EXPECT_TRUE(IsTemporaryName("st_7.orbax-checkpoint-tmp-1712345678"));
  EXPECT_FALSE(IsTemporaryName("7"));
  EXPECT_FALSE(IsTemporaryName("orbax-checkpoint-tmp"));
  EXPECT_EQ(FinalName("st_7.orbax-checkpoint-tmp-17"), "st_7");
  EXPECT_EQ(FinalName("st_7"), std::nullopt);
}

TEST(DirectoryNames, CommitMarker) {
  EXPECT_EQ(CommitMarkerText("/data/run/7", false),
            "Checkpoint commit was successful to /data/run/7");
  EXPECT_EQ(CommitMarkerText("/data/run/7", true),
            "Checkpoint commit was successful to /data/run/7\n"
            "Its checksums are in _HOLDFAST_DIGESTS");
  EXPECT_TRUE(MarkerTellsOfDigests(CommitMarkerText("/data/run/7", true)));
  EXPECT_FALSE(MarkerTellsOfDigests(CommitMarkerText("/data/run/7", false)));
  EXPECT_FALSE(MarkerTellsOfDigests(""));
}

TEST(DirectoryNames, ProcessDirectories) {
  const auto plain = ParseProcessDirectory("ocdbt.process_12");
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->id, "12");
  EXPECT_FALSE(plain->is_replica);
  const auto replica = ParseProcessDirectory("ocdbt.process_replica_3");
  ASSERT_TRUE(replica.has_value());
  EXPECT_EQ(replica->id, "3");
  EXPECT_TRUE(replica->is_replica);
  EXPECT_EQ(ParseProcessDirectory("ocdbt.process_pwcontroller")->id,
            "pwcontroller");
  for (const char* name :
       {"ocdbt.process_", "ocdbt.process_replica_", "ocdbt.process_1-2",
        "ocdbt.process_../x", "d", "xocdbt.process_0"}) {
    EXPECT_FALSE(ParseProcessDirectory(name).has_value()) << name;
  }
  for (const ProcessDirectory& directory : {*plain, *replica}) {
    const auto again = ParseProcessDirectory(ProcessDirectoryName(directory));
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(again->id, directory.id);
    EXPECT_EQ(again->is_replica, directory.is_replica);
  }
}

TEST(DirectoryNames, ParamNamesThatOrbaxStoresAreAllowed) {
  for (const char* name :
       {"", "a.b", "top..hidden", "top...", "a/b/c", "..a", "line\n",
        "top. lead", "_METADATA.x", "x/_METADATA", "top.brackets[0]"}) {
    EXPECT_TRUE(CheckDirectoryParamName(name).ok()) << name;
  }
}

TEST(DirectoryNames, ParamNamesThatLeaveTheCheckpointAreRefused) {
  for (const char* name :
       {"..", "a/../b", "../x", "a/..", ".", "a/./b", "/a", "/", "a//b", "a/",
        "_METADATA", "_sharding/x", "commit_success.txt"}) {
    const Status status = CheckDirectoryParamName(name);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("leaf '" + std::string(name) + "'"));
  }
  EXPECT_EQ(CheckDirectoryParamName(std::string_view("a\0b", 3)).code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace holdfast
