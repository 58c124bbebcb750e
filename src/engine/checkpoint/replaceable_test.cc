// Directories that an overwrite may replace, and directories that it refuses.
#include "engine/commit/replaceable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/checkpoint/opened_checkpoint.h"
#include "holdfast/checkpoint.h"
#include "holdfast/pending_save.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ReplaceableTest : public testing::Test {
 protected:
  void Put(const std::string& name, const std::string& text = "x") {
    WriteTestFile(path_ + "/" + name, text);
  }
  void ExpectRefused(const std::string& first_file) {
    const Status status = CheckMayReplace(path_);
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition)
        << first_file << ": " << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr(first_file));
    fs::remove_all(path_);
  }
  void ExpectReplaced() {
    const Status status = CheckMayReplace(path_);
    EXPECT_TRUE(status.ok()) << status.ToString();
    fs::remove_all(path_);
  }
  void SaveTree(bool use_ocdbt = true, Format format = Format::kOrbax) {
    const std::vector<float> values(12, 1.5F);
    SaveOptions options;
    options.use_ocdbt = use_ocdbt;
    options.format = format;
    options.overwrite = true;
    const Array array =
        Array::FromBytes(DType::kFloat32, {3, 4}, values.data());
    const Status saved =
        Save(path_,
             Tree::Dict({{"a", Tree::Dict({{"b", Tree(array)}})},
                         {"s", Tree("text")},
                         {"w", Tree(array)}}),
             options)
            .status();
    ASSERT_TRUE(saved.ok()) << saved.ToString();
  }

  ScratchDirectory scratch_;
  const std::string path_ = scratch_.path() + "/p";
};

TEST_F(ReplaceableTest, FilesWithNamesOfOrbaxMakeNoCheckpoint) {
  for (const char* name : {"checkpoint", "metadata", "data.json", "metrics"}) {
    Put(name, "model_checkpoint_path: \"ckpt-5\"");
    ExpectRefused(name);
    Put(name, "mine");
    Put("src/main.py");
    ExpectRefused(name);
  }
  Put("checkpoint", std::string("\x80\x04\x95pickle", 9));
  ExpectRefused("checkpoint");
}

TEST_F(ReplaceableTest, CheckpointsOneLevelDownAreNotAsked) {
  Put("ckpt/_METADATA", "{}");
  Put("ckpt/_CHECKPOINT_METADATA", "{}");
  ExpectRefused("ckpt/_CHECKPOINT_METADATA");
  Put("1/_CHECKPOINT_METADATA", "{}");
  Put("2/_CHECKPOINT_METADATA", "{}");
  Put("metadata/_ROOT_METADATA", "{}");
  ExpectRefused("1/_CHECKPOINT_METADATA");
  Put("1.1700000000/_METADATA", "{}");  // a trash
  ExpectRefused("1.1700000000/_METADATA");
}

TEST_F(ReplaceableTest, WhatIsSavedIsReplacedAndNotesAreFound) {
  for (const bool use_ocdbt : {true, false}) {
    for (const Format format : {Format::kOrbax, Format::kOrbaxV1}) {
      SaveTree(use_ocdbt, format);
      ExpectReplaced();
      SaveTree(use_ocdbt, format);
      Put("notes.txt");
      ExpectRefused("notes.txt");
      SaveTree(use_ocdbt, format);
      Put("1/_CHECKPOINT_METADATA", "{}");  // steps below a checkpoint
      ExpectRefused("1/_CHECKPOINT_METADATA");
      SaveTree(use_ocdbt, format);
      fs::create_symlink("/etc/passwd", path_ + "/link");
      ExpectRefused("link");
    }
  }
  SaveTree();
  fs::remove(path_ + "/_HOLDFAST_DIGESTS");  // as written by stock Orbax
  ExpectReplaced();
  SaveTree();
  fs::remove(path_ + "/_HOLDFAST_DIGESTS");
  Put("d/x/y");
  ExpectRefused("d/x/y");
}

TEST_F(ReplaceableTest, HandlersWriteWhatTheyLikeIntoTheirItems) {
  Put("_CHECKPOINT_METADATA",
      R"({"item_handlers": {"state": "my.Handler", "m": null}})");
  Put("state/anything/at.all");
  Put("m/metrics", "{}");
  ExpectReplaced();
  Put("_CHECKPOINT_METADATA", R"({"item_handlers": {"state": "my.Handler"}})");
  Put("state/x");
  Put("unknown/x");
  ExpectRefused("unknown/x");
  // The checkpoint is a single item of such a handler.
  Put("_CHECKPOINT_METADATA", R"({"item_handlers": "my.Handler"})");
  Put("anything.pb");
  ExpectReplaced();
}

TEST_F(ReplaceableTest, WithDigestsItemsAreTheirFiles) {
  const auto save = [&] {
    auto pending = PendingSave::Begin(path_, {.overwrite = true});
    ASSERT_TRUE(pending.ok()) << pending.status().ToString();
    ASSERT_TRUE((*pending)->SaveItem("state", Tree::Dict({{"a", 1}}), {}).ok());
    ASSERT_TRUE(
        (*pending)->SaveItem("in/side", Tree::Dict({{"a", 1}}), {}).ok());
    ASSERT_TRUE((*pending)->WriteFile("other/custom.bin", "mine").ok());
    ASSERT_TRUE((*pending)->Commit({}).ok());
  };
  save();
  ExpectReplaced();
  save();
  Put("state/notes.txt");
  ExpectRefused("state/notes.txt");
}

TEST_F(ReplaceableTest, OldCheckpointsAreReplaced) {
  Put("checkpoint", std::string("\x81\xa1", 2) + "a\x01");
  Put("a.b/.zarray", "{}");
  Put("a.b/0.0");
  ExpectReplaced();
  Put("checkpoint", std::string("\x81\xa1", 2) + "a\x01");
  Put("a.b/.zarray", "{}");
  Put("a.b/README");
  ExpectRefused("a.b/README");
  // A TypeHandler wrote files for its leaves.
  Put("_METADATA",
      R"raw({"tree_metadata": {"('a', 'b')": {"key_metadata": [)raw"
      R"raw({"key": "a", "key_type": 2}, {"key": "b", "key_type": 2}], )raw"
      R"raw("value_metadata": {"value_type": "mine", )raw"
      R"raw("skip_deserialize": false}}}})raw");
  Put("a.b/part-0.bin");
  ExpectReplaced();
}

TEST_F(ReplaceableTest, PruneTellsCheckpointsFromOthers) {
  const auto holds = [&] {
    const auto held = HoldsCheckpoint(path_);
    EXPECT_TRUE(held.ok());
    fs::remove_all(path_);
    return held.ok() && *held;
  };
  EXPECT_FALSE(holds());
  Put("jan.csv");
  EXPECT_FALSE(holds());
  Put("metadata");
  EXPECT_FALSE(holds());
  Put("ckpt/_METADATA");
  Put("ckpt/_CHECKPOINT_METADATA");
  EXPECT_FALSE(holds());
  Put("default/_METADATA");  // an old step with items
  Put("metrics/metrics");
  EXPECT_TRUE(holds());
  Put("_CHECKPOINT_METADATA");
  Put("notes.txt");
  EXPECT_TRUE(holds());
  Put("common.pt");
  Put("metadata.json");
  EXPECT_TRUE(holds());
}

}  // namespace
}  // namespace holdfast
