// PendingSave and SaveItem: checkpoints assembled from several items and the
// caller's own files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "checkpoint/test_trees.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

namespace fs = std::filesystem;

std::string FileText(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

void WriteText(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

void FlipLastByte(const fs::path& path) {
  std::string text = FileText(path);
  text.back() ^= 1;
  WriteText(path, text);
}

Tree SmallTree(uint32_t seed) {
  return Tree::Dict({
      {"b", Tree::JaxArray(RandomArray(DType::kFloat32, {40, 50}, seed))},
      {"s", Tree("text")},
      {"w", Tree(RandomArray(DType::kInt16, {6}, seed + 1))},
  });
}

SaveOptions Quickly() {
  SaveOptions options;
  options.run.threads = 2;
  return options;
}

class PendingSaveTest : public testing::Test {
 protected:
  std::unique_ptr<PendingSave> Begin(PendingSaveOptions options = {}) {
    auto pending = PendingSave::Begin(path_, options);
    EXPECT_TRUE(pending.ok()) << pending.status().ToString();
    return std::move(pending).value();
  }

  std::vector<std::string> DamagedFiles() {
    const auto report = Verify(path_);
    EXPECT_TRUE(report.ok()) << report.status().ToString();
    std::vector<std::string> files;
    for (const Damage& damage : report->damages) files.push_back(damage.file);
    return files;
  }

  const ScratchDirectory scratch_;
  const std::string path_ = scratch_ / "checkpoint";
};

TEST_F(PendingSaveTest, ItemsAndFilesAppearTogether) {
  const auto pending = Begin();
  EXPECT_EQ(pending->directory(), path_ + ".orbax-checkpoint-tmp");
  ASSERT_TRUE(pending->SaveItem("params", SmallTree(1), Quickly()).ok());
  ASSERT_TRUE(pending->SaveItem("opt/inner", SmallTree(3), Quickly()).ok());
  ASSERT_TRUE(pending->WriteFile("notes/metadata", "{\"a\": 1}").ok());
  ASSERT_TRUE(pending->WriteFile("params/commit_success.txt", "done").ok());
  WriteText(fs::path(pending->directory()) / "own/deep/file.bin",
            std::string(3'000'000, 'x'));
  WriteText(fs::path(pending->directory()) / "params/extra.txt", "more");
  EXPECT_FALSE(fs::exists(path_));
  RootRecord root;
  root.item_handlers_json = R"({"params": "a.B", "notes": null})";
  root.custom_metadata = R"({"k": [1]})";
  const Status committed = pending->Commit(root);
  ASSERT_TRUE(committed.ok()) << committed.ToString();

  EXPECT_FALSE(fs::exists(pending->directory()));
  const auto loaded = Load(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_TRUE(loaded->tree == Tree::Dict({{"notes", Tree("{\"a\": 1}")},
                                          {"opt/inner", SmallTree(3)},
                                          {"params", SmallTree(1)}}));
  const auto opened = Open(path_);
  ASSERT_TRUE(opened.ok());
  EXPECT_THAT(
      (*opened)->info().checkpoint_metadata,
      HasSubstr(R"("item_handlers": {"params": "a.B", "notes": null})"));
  EXPECT_EQ((*opened)->info().custom_metadata, R"({"k": [1]})");
  EXPECT_EQ(FileText(fs::path(path_) / "commit_success.txt"),
            "Checkpoint commit was successful to " + path_ +
                "\nIts checksums are in _HOLDFAST_DIGESTS");
  EXPECT_THAT(DamagedFiles(), ElementsAre());
}

// Verify names the file in which a byte was changed after the save.
TEST_F(PendingSaveTest, EveryFileHasAChecksum) {
  const auto pending = Begin();
  ASSERT_TRUE(pending->SaveItem("a", SmallTree(1), Quickly()).ok());
  SaveOptions directories = Quickly();
  directories.use_ocdbt = false;
  ASSERT_TRUE(pending->SaveItem("b", SmallTree(2), directories).ok());
  SaveOptions undigested = Quickly();
  undigested.write_digests = false;
  ASSERT_TRUE(pending->SaveItem("c", SmallTree(3), undigested).ok());
  WriteText(fs::path(pending->directory()) / "a/mine", "in an item");
  WriteText(fs::path(pending->directory()) / "mine",
            std::string(2'500'000, 'y'));
  ASSERT_TRUE(pending->Commit({}).ok());
  EXPECT_TRUE(fs::exists(path_ + "/a/_HOLDFAST_DIGESTS"));
  EXPECT_FALSE(fs::exists(path_ + "/c/_HOLDFAST_DIGESTS"));
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(path_)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  EXPECT_GT(files.size(), 25u);
  for (const fs::path& file : files) {
    FlipLastByte(file);
    EXPECT_FALSE(DamagedFiles().empty()) << file;
    FlipLastByte(file);
  }
  EXPECT_THAT(DamagedFiles(), ElementsAre());
}

TEST_F(PendingSaveTest, AnItemAtTheRootSharesItsList) {
  const auto pending = Begin();
  ASSERT_TRUE(pending->SaveItem("", SmallTree(1), Quickly()).ok());
  ASSERT_TRUE(pending->WriteFile("note", "old").ok());
  ASSERT_TRUE(pending->WriteFile("note", "new").ok());
  WriteText(fs::path(pending->directory()) / "mine", "mine");
  RootRecord root;
  root.item_handlers_json = "\"some.Handler\"";
  root.is_v1 = true;
  ASSERT_TRUE(pending->Commit(root).ok());
  EXPECT_TRUE(Load(path_)->tree == SmallTree(1));
  EXPECT_THAT(DamagedFiles(), ElementsAre());
  EXPECT_TRUE(fs::exists(path_ + "/orbax.checkpoint"));
  for (const char* name : {"mine", "note", "_METADATA", "commit_success.txt",
                           "_CHECKPOINT_METADATA", "orbax.checkpoint"}) {
    WriteText(path_ + "/" + name, FileText(path_ + "/" + name) + " ");
    EXPECT_THAT(DamagedFiles(), testing::Contains(name));
    std::string text = FileText(path_ + "/" + name);
    text.pop_back();
    WriteText(path_ + "/" + name, text);
  }
}

TEST_F(PendingSaveTest, SaveWritesTheSameBytes) {
  uint64_t clock = 1000, random = 0;
  SaveOptions options = Quickly();
  options.now_ns = [&] { return clock++; };
  options.random_hex = [&] {
    char text[33];
    std::snprintf(text, sizeof text, "%032lx", ++random);
    return std::string(text);
  };
  options.custom_metadata = R"({"a": 1})";
  const auto files = [&] {
    std::map<std::string, std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(path_)) {
      if (!entry.is_regular_file()) continue;
      found[fs::relative(entry.path(), path_)] = FileText(entry.path());
    }
    fs::remove_all(path_);
    clock = 1000;
    random = 0;
    return found;
  };
  ASSERT_TRUE(Save(path_, SmallTree(1), options).ok());
  const auto saved = files();
  PendingSaveOptions pending_options;
  pending_options.now_ns = options.now_ns;
  const auto pending = Begin(pending_options);
  ASSERT_TRUE(pending->SaveItem("", SmallTree(1), options).ok());
  RootRecord root;
  root.item_handlers_json =
      "\"orbax.checkpoint._src.handlers.pytree_checkpoint_handler."
      "PyTreeCheckpointHandler\"";
  root.custom_metadata = options.custom_metadata;
  ASSERT_TRUE(pending->Commit(root).ok());
  EXPECT_EQ(files(), saved);
}

TEST_F(PendingSaveTest, AbandonedOrFailedLeavesNothing) {
  {
    const auto pending = Begin();
    ASSERT_TRUE(pending->SaveItem("a", SmallTree(1), Quickly()).ok());
  }
  EXPECT_TRUE(fs::is_empty(scratch_.path()));
  {
    const auto pending = Begin();
    std::atomic<bool> cancel{true};
    SaveOptions cancelled = Quickly();
    cancelled.run.cancel = &cancel;
    EXPECT_EQ(pending->SaveItem("a", SmallTree(1), cancelled).status().code(),
              StatusCode::kCancelled);
    EXPECT_EQ(pending->Commit({}).code(), StatusCode::kFailedPrecondition);
    EXPECT_EQ(pending->WriteFile("b", "").code(),
              StatusCode::kFailedPrecondition);
  }
  EXPECT_TRUE(fs::is_empty(scratch_.path()));
}

// A request that is refused before anything is written has no effect.
TEST_F(PendingSaveTest, RefusalsNameWhatIsWrong) {
  const auto pending = Begin();
  const auto refusal = [&](const std::string& name, const Tree& tree) {
    return pending->SaveItem(name, tree, Quickly()).status().ToString();
  };
  EXPECT_THAT(refusal("../up", SmallTree(1)), HasSubstr("item name"));
  EXPECT_THAT(refusal("a", Tree::Dict()), HasSubstr("Found empty item."));
  ASSERT_TRUE(pending->SaveItem("a", SmallTree(1), Quickly()).ok());
  EXPECT_EQ(refusal("a", SmallTree(1)),
            "INVALID_ARGUMENT: item \"a\" is saved twice");
  for (const char* text : {"", "[1]", "{\"a\": 1}", "3", "{"}) {
    RootRecord root;
    root.item_handlers_json = text;
    EXPECT_THAT(std::string(pending->Commit(root).message()),
                HasSubstr("item_handlers_json must be the text of null, a "
                          "string, or an object of strings"));
  }
  RootRecord root;
  root.custom_metadata = "[]";
  EXPECT_THAT(std::string(pending->Commit(root).message()),
              HasSubstr("custom_metadata must be the text of a JSON object"));
  EXPECT_TRUE(pending->Commit({}).ok());
  EXPECT_EQ(pending->Commit({}).code(), StatusCode::kFailedPrecondition);
}

TEST_F(PendingSaveTest, DestinationIsKeptUnlessToldOtherwise) {
  ASSERT_TRUE(Save(path_, SmallTree(1), Quickly()).ok());
  EXPECT_EQ(PendingSave::Begin(path_, {}).status().message(),
            "Destination " + path_ + " already exists.");
  PendingSaveOptions options;
  options.overwrite = true;
  const auto pending = Begin(options);
  ASSERT_TRUE(pending->SaveItem("x", SmallTree(5), Quickly()).ok());
  EXPECT_TRUE(Load(path_)->tree == SmallTree(1));
  ASSERT_TRUE(pending->Commit({}).ok());
  EXPECT_TRUE(Load(path_)->tree == SmallTree(5));
}

TEST(SaveItemTest, WritesADirectoryWithoutMarkers) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "deep/item";
  const auto saved = SaveItem(path, SmallTree(1), Quickly());
  ASSERT_TRUE(saved.ok()) << saved.status().ToString();
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path)) {
    names.push_back(entry.path().filename());
  }
  EXPECT_THAT(
      names, UnorderedElementsAre("_HOLDFAST_DIGESTS", "_METADATA", "_sharding",
                                  "_strings.json", "array_metadatas", "d",
                                  "manifest.ocdbt", "ocdbt.process_0"));
  EXPECT_TRUE(Load(path)->tree == SmallTree(1));
}

// The metadata that the earlier item had for arrays of the same names must be
// removed.
TEST(SaveItemTest, ReplacesAnEarlierItem) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "item";
  auto key = std::make_shared<ArrayTraits>();
  key->prng_impl = "rbg";
  const Array data = RandomArray(DType::kUint32, {4}, 1);
  ASSERT_TRUE(
      SaveItem(path, Tree::Dict({{"a", Tree::JaxArray(data, key)}}), Quickly())
          .ok());
  SaveOptions options = Quickly();
  options.write_digests = false;
  for (const bool use_ocdbt : {true, false, true}) {
    options.use_ocdbt = use_ocdbt;
    const Tree tree =
        Tree::Dict({{"a", Tree(RandomArray(DType::kUint32, {4}, use_ocdbt))}});
    ASSERT_TRUE(SaveItem(path, tree, options).ok());
    const auto loaded = Load(path);
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    EXPECT_TRUE(loaded->tree == tree) << use_ocdbt;
    EXPECT_EQ((*Open(path))->leaves()[0].prng_impl, "");
  }
}

}  // namespace
}  // namespace holdfast
