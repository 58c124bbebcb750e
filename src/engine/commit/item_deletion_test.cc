#include "holdfast/detail/item_deletion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kMetadata =
    R"({"item_handlers": {"b": "h", "a": null}, "custom_metadata": {"n": 1}})";

class ItemDeletionTest : public testing::Test {
 protected:
  void SetUp() override {
    WriteTestFile(path_ + "/_CHECKPOINT_METADATA", kMetadata);
    WriteTestFile(path_ + "/a/_METADATA", "{}");
    WriteTestFile(path_ + "/b/_METADATA", "{}");
  }

  std::string TextOf(const std::string& name) const {
    std::ifstream in(path_ + "/" + name);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::string ErrorOfRecord(const std::string& text) {
    WriteTestFile(path_ + "/_CHECKPOINT_DELETION", text);
    return std::string(FindItemDeletion(path_).status().message());
  }

  ScratchDirectory scratch_;
  const std::string path_ = scratch_.path();
};

TEST_F(ItemDeletionTest, HidesTheItemUntilItIsGone) {
  EXPECT_EQ(*FindItemDeletion(path_), std::nullopt);
  ASSERT_TRUE(BeginItemDeletion(path_, "a").ok());
  EXPECT_EQ(*FindItemDeletion(path_), "a");
  EXPECT_EQ(BeginItemDeletion(path_, "b").code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(fs::exists(path_ + "/a"));
  ASSERT_TRUE(FinishItemDeletion(path_).ok());
  EXPECT_FALSE(fs::exists(path_ + "/a"));
  EXPECT_FALSE(fs::exists(path_ + "/_CHECKPOINT_DELETION"));
  EXPECT_EQ(TextOf("_CHECKPOINT_METADATA"),
            R"({"item_handlers": {"b": "h"}, "custom_metadata": {"n": 1}})");
  EXPECT_TRUE(FinishItemDeletion(path_).ok());  // nothing is left to do
}

TEST_F(ItemDeletionTest, FinishesWhatWasCutOffAnywhere) {
  ASSERT_TRUE(BeginItemDeletion(path_, "a").ok());
  fs::remove_all(path_ + "/a");
  WriteTestFile(
      path_ + "/_CHECKPOINT_METADATA",
      R"({"custom_metadata": {"n": 1}, "item_handlers": {"b": "h"}})");
  EXPECT_EQ(*FindItemDeletion(path_), "a");
  EXPECT_TRUE(FinishItemDeletion(path_).ok());
  EXPECT_EQ(*FindItemDeletion(path_), std::nullopt);
}

TEST_F(ItemDeletionTest, KeepsThePermissionsOfTheMetadata) {
  const std::string metadata = path_ + "/_CHECKPOINT_METADATA";
  ::chmod(metadata.c_str(), 0640);
  ASSERT_TRUE(BeginItemDeletion(path_, "a", 0600).ok());
  struct stat info = {};
  ASSERT_EQ(::stat((path_ + "/_CHECKPOINT_DELETION").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_TRUE(FinishItemDeletion(path_).ok());
  ASSERT_EQ(::stat(metadata.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST_F(ItemDeletionTest, RefusesRecordsThatSayNothing) {
  ASSERT_TRUE(BeginItemDeletion(path_, "a").ok());
  const std::string whole = TextOf("_CHECKPOINT_DELETION");
  EXPECT_THAT(ErrorOfRecord(""), HasSubstr("Invalid deletion record at "));
  EXPECT_THAT(ErrorOfRecord("[]"), HasSubstr("Expected a metadata dictionary"));
  EXPECT_THAT(ErrorOfRecord("{}"), HasSubstr("'operation_id'"));
  WriteTestFile(path_ + "/_CHECKPOINT_METADATA", R"({"item_handlers": {}})");
  EXPECT_THAT(ErrorOfRecord(whole), HasSubstr("conflicts"));
  EXPECT_EQ(FinishItemDeletion(path_).code(), StatusCode::kFailedPrecondition);
}

TEST_F(ItemDeletionTest, NamesThatCannotBe) {
  for (const char* name : {"", ".", "..", "a/b", "metrics", "AUTO"}) {
    EXPECT_EQ(CheckDeletableItem(name).message(),
              "Invalid checkpointable name: '" + std::string(name) + "'.");
  }
  EXPECT_TRUE(CheckDeletableItem("a").ok());
  EXPECT_EQ(BeginItemDeletion(path_, "c").message(),
            "No handler metadata for checkpointable 'c'.");
}

TEST_F(ItemDeletionTest, OneItemMayGoTheLastMayNot) {
  EXPECT_TRUE(CheckDeletableItemOf(path_, "a").ok());
  EXPECT_EQ(CheckDeletableItemOf(path_, "c").ToString(),
            "NOT_FOUND: Checkpointable 'c' does not exist at " + path_ + ".");
  fs::remove_all(path_ + "/b");
  EXPECT_EQ(CheckDeletableItemOf(path_, "a").ToString(),
            "INVALID_ARGUMENT: Cannot delete the final checkpointable; delete "
            "the whole checkpoint instead.");
  fs::create_directory_symlink(path_ + "/a", path_ + "/b");
  EXPECT_EQ(CheckDeletableItemOf(path_, "b").ToString(),
            "INVALID_ARGUMENT: Cannot delete a checkpoint through a symlink: " +
                path_ + "/b.");
  WriteTestFile(path_ + "/_CHECKPOINT_METADATA", R"({"item_handlers": "h"})");
  EXPECT_EQ(CheckDeletableItemOf(path_, "a").ToString(),
            "FAILED_PRECONDITION: Checkpoint at " + path_ +
                " has no named checkpointables.");
}

TEST_F(ItemDeletionTest, OnlyWholeCheckpointsMayGo) {
  EXPECT_TRUE(CheckDeletablePath(path_).ok());
  EXPECT_TRUE(CheckDeletableCheckpoint(path_).ok());
  EXPECT_EQ(CheckDeletableCheckpoint(path_ + "/a").ToString(),
            "FAILED_PRECONDITION: " + path_ +
                "/a is a checkpointable directory. Delete from its checkpoint "
                "root using checkpointable_name instead.");
  fs::remove(path_ + "/_CHECKPOINT_METADATA");
  EXPECT_EQ(
      CheckDeletableCheckpoint(path_).ToString(),
      "FAILED_PRECONDITION: Not an Orbax checkpoint root: " + path_ + ".");
  fs::create_directory(path_ + "/empty");
  EXPECT_TRUE(CheckDeletableCheckpoint(path_ + "/empty").ok());
  fs::create_directory_symlink(path_, path_ + "/link");
  for (const std::string& path :
       {std::string("/"), std::string("."), std::string("gs://bucket"),
        path_ + "/link"}) {
    EXPECT_EQ(CheckDeletablePath(path).code(), StatusCode::kInvalidArgument)
        << path;
  }
}

}  // namespace
}  // namespace holdfast
