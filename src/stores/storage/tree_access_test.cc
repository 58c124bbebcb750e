#include "stores/storage/tree_access.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

namespace holdfast {
namespace {

namespace fs = std::filesystem;

class TreeAccessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    umask_ = ::umask(022);
    root_ = fs::temp_directory_path().string() + "/tree_access_test." +
            std::to_string(::getpid());
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override {
    ::umask(umask_);
    fs::remove_all(root_);
  }

  // Makes a directory that holds a file, and a directory with another file.
  std::string Make(const std::string& name, uint32_t directories,
                   uint32_t files) {
    const std::string path = root_ + "/" + name;
    fs::create_directories(path + "/d");
    for (const char* file : {"/f", "/d/g"}) {
      std::ofstream(path + file) << "text";
      fs::permissions(path + file, fs::perms(files));
    }
    fs::permissions(path + "/d", fs::perms(directories));
    fs::permissions(path, fs::perms(directories));
    return path;
  }

  static uint32_t ModeOf(const std::string& path) {
    return static_cast<uint32_t>(fs::status(path).permissions()) & 07777;
  }
  static void ExpectModes(const std::string& path, uint32_t directories,
                          uint32_t files) {
    EXPECT_EQ(ModeOf(path), directories);
    EXPECT_EQ(ModeOf(path + "/d"), directories);
    EXPECT_EQ(ModeOf(path + "/f"), files);
    EXPECT_EQ(ModeOf(path + "/d/g"), files);
  }

  std::string root_;
  mode_t umask_ = 0;
};

TEST_F(TreeAccessTest, WhatIsReplacedGivesItsOwn) {
  for (const auto& [directories, files] :
       std::map<uint32_t, uint32_t>{{0700, 0600}, {0775, 0664}, {0750, 0640}}) {
    const std::string name = std::to_string(directories);
    const std::string old = Make("old" + name, directories, files);
    const std::string made = Make("new" + name, 0755, 0644);
    const AccessRule rule = AccessRule::Of(old, {});
    EXPECT_EQ(*rule.IsNarrower(made), (directories & 0055) != 0055);
    ASSERT_TRUE(rule.CloseWhileItGrows(made).ok());
    EXPECT_EQ(ModeOf(made), (directories & 0055) != 0055 ? 0700u : 0755u);
    ASSERT_TRUE(rule.Apply(made, true).ok());
    ExpectModes(made, directories, files);
  }
}

TEST_F(TreeAccessTest, SourcesBound) {
  const std::string made = Make("new", 0755, 0644);
  const AccessRule rule = AccessRule::Of(
      root_ + "/none", {Make("a", 0750, 0644), Make("b", 0777, 0640)});
  ASSERT_TRUE(rule.CloseWhileItGrows(made).ok());
  ASSERT_TRUE(rule.Apply(made, false).ok());
  ExpectModes(made, 0750, 0640);
}

TEST_F(TreeAccessTest, NothingIsDoneWhereNothingIsThere) {
  const std::string made = Make("new", 0711, 0604);
  const AccessRule rule = AccessRule::Of(root_ + "/none", {root_ + "/no"});
  EXPECT_TRUE(rule.is_plain());
  ASSERT_TRUE(rule.Apply(made, true).ok());
  ExpectModes(made, 0711, 0604);
  EXPECT_TRUE(AccessRule::Of("", {"s3://bucket/run"}).is_plain());
}

// A directory without files does not determine the permissions of files.
TEST_F(TreeAccessTest, AnEmptyDirectoryIsReplaced) {
  fs::create_directories(root_ + "/empty");
  fs::permissions(root_ + "/empty", fs::perms(0700));
  const std::string made = Make("new", 0755, 0644);
  ASSERT_TRUE(AccessRule::Of(root_ + "/empty", {}).Apply(made, false).ok());
  ExpectModes(made, 0700, 0644);
}

// A single file no longer has the protection of its directory.
TEST_F(TreeAccessTest, AFileThatWasInAClosedDirectory) {
  const std::string source = Make("source", 0710, 0644);
  const std::string file = root_ + "/file";
  std::ofstream(file) << "text";
  ASSERT_TRUE(AccessRule::Of("", {source}).Apply(file, false).ok());
  EXPECT_EQ(ModeOf(file), 0640u);
  fs::permissions(file, fs::perms(0640));
  const std::string made = Make("new", 0755, 0644);
  ASSERT_TRUE(AccessRule::Of("", {file}).Apply(made, false).ok());
  ExpectModes(made, 0750, 0640);
}

// A file with several names may also belong to someone else.
TEST_F(TreeAccessTest, LinksAreLeftAlone) {
  const std::string made = Make("new", 0755, 0644);
  fs::create_hard_link(made + "/f", root_ + "/other");
  fs::create_symlink(root_ + "/other", made + "/link");
  ASSERT_TRUE(
      AccessRule::Of("", {Make("a", 0700, 0600)}).Apply(made, false).ok());
  EXPECT_EQ(ModeOf(root_ + "/other"), 0644u);
  EXPECT_EQ(ModeOf(made + "/d/g"), 0600u);
}

TEST_F(TreeAccessTest, TheBitOfTheGroupStays) {
  const std::string made = Make("new", 0755, 0644);
  fs::permissions(made, fs::perms(02755));
  const AccessRule rule = AccessRule::Of(Make("old", 0700, 0600), {});
  ASSERT_TRUE(rule.CloseWhileItGrows(made).ok());
  EXPECT_EQ(ModeOf(made), 02700u);
  ASSERT_TRUE(rule.Apply(made, false).ok());
  EXPECT_EQ(ModeOf(made), 02700u);
}

}  // namespace
}  // namespace holdfast
