// Damage to files other than arrays, which every reader of a checkpoint must
// notice.
#include "engine/check/checked_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "engine/checkpoint/opened_checkpoint.h"
#include "engine/save/array_test_util.h"
#include "holdfast/detail/checked_file.h"
#include "holdfast/pending_save.h"
#include "stores/place/file_walk.h"
#include "stores/place/place.h"
#include "twins/mem_bucket.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

namespace fs = std::filesystem;

constexpr char kHandlers[] = R"({"state": "s", "meta": "j"})";

std::string TextOfFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

void ReplaceFile(const fs::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Replaces a word so that the length is the same and the JSON still valid.
void ChangeWord(const fs::path& path, std::string_view word,
                std::string_view other) {
  std::string text = TextOfFile(path);
  const size_t place = text.find(word);
  ASSERT_NE(place, std::string::npos) << path << ": " << text;
  text.replace(place, word.size(), other);
  ReplaceFile(path, text);
}

Tree StateTree(int64_t number = 1) {
  auto key = std::make_shared<ArrayTraits>();
  key->prng_impl = "rbg";
  key->sharding_json = R"({"sharding_type": "SingleDeviceSharding"})";
  return Tree::Dict({
      {"key", Tree::JaxArray(Zeros(DType::kUint32, {4}), key)},
      {"name", Tree("adam")},
      {"step", Tree(number)},
      {"w", Tree(Zeros(DType::kFloat32, {3, 5}))},
  });
}

// Steps of a root, each with a tree and a document that its caller wrote.
class DamagedFileTest : public testing::Test {
 protected:
  void SetUp() override { SaveStep(5); }

  void SaveStep(int64_t step, bool use_ocdbt = true) {
    PendingSaveOptions options;
    options.sync = false;
    const auto pending = PendingSave::Begin(PathOf(step), options);
    ASSERT_TRUE(pending.ok()) << pending.status().ToString();
    SaveOptions item;
    item.use_ocdbt = use_ocdbt;
    ASSERT_TRUE((*pending)->SaveItem("state", StateTree(step), item).ok());
    WriteBelow((*pending)->directory(), "meta/metadata", R"({"lr": 0.125})");
    RootRecord root;
    root.item_handlers_json = kHandlers;
    root.custom_metadata = R"({"run": "blue"})";
    ASSERT_TRUE((*pending)->Commit(root).ok());
  }

  static void WriteBelow(const fs::path& directory, const std::string& name,
                         std::string_view text) {
    const fs::path file = directory / name;
    fs::create_directories(file.parent_path());
    ReplaceFile(file, text);
  }

  std::string PathOf(int64_t step) const {
    return root_ + "/" + std::to_string(step);
  }
  std::string FileOf(int64_t step, const std::string& name) const {
    return PathOf(step) + "/" + name;
  }

  static Status LoadStatus(const std::string& path, OpenOptions open = {}) {
    LoadOptions options;
    options.open = std::move(open);
    return LoadCheckpoint(Place(path), options).status();
  }

  void ExpectDamage(const std::string& path, std::string_view word) {
    const Status status = LoadStatus(path);
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.ToString();
    EXPECT_THAT(status.message(), HasSubstr(word));
    const auto report = VerifyCheckpoint(Place(path));
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    EXPECT_FALSE(report->damages.empty());
  }

  ScratchDirectory scratch_;
  const std::string root_ = scratch_ / "run";
};

TEST_F(DamagedFileTest, UndamagedIsRead) {
  const auto loaded = LoadCheckpoint(Place(PathOf(5)), {});
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_THAT(loaded->notes, IsEmpty());
  EXPECT_EQ(loaded->tree.Find("meta")->text(), R"({"lr": 0.125})");
  EXPECT_EQ(loaded->tree.Find("state")->Find("key")->array_traits().prng_impl,
            "rbg");
  EXPECT_THAT(VerifyCheckpoint(Place(PathOf(5)))->damages, IsEmpty());
  EXPECT_TRUE(LoadStatus(FileOf(5, "state")).ok());
  EXPECT_TRUE(LoadStatus(FileOf(5, "meta")).ok());
}

struct Change {
  std::string file, word, other;
};

const Change kChanges[] = {
    {"meta/metadata", "0.125", "0.925"},
    {"_CHECKPOINT_METADATA", "blue", "blur"},
    {"state/array_metadatas/process_0", "\"rbg\"", "\"rbh\""},
    {"state/_sharding", "Single", "Sinlge"},
    {"state/_strings.json", "adam", "adan"},
    {"state/_METADATA", "scalar", "skalar"},
};

TEST_F(DamagedFileTest, AChangedFileIsDataLoss) {
  for (const Change& change : kChanges) {
    SCOPED_TRACE(change.file);
    const std::string file = FileOf(5, change.file);
    const std::string saved = TextOfFile(file);
    ChangeWord(file, change.word, change.other);
    ExpectDamage(PathOf(5), change.file);
    OpenOptions unchecked;
    unchecked.verify = false;
    const Status status = LoadStatus(PathOf(5), unchecked);
    EXPECT_NE(status.code(), StatusCode::kDataLoss) << status.ToString();
    ReplaceFile(file, saved);
    EXPECT_TRUE(LoadStatus(PathOf(5)).ok());
  }
}

TEST_F(DamagedFileTest, AMissingFileIsDataLoss) {
  for (const char* name :
       {"meta/metadata", "_CHECKPOINT_METADATA", "state/manifest.ocdbt",
        "state/array_metadatas/process_0", "state/_sharding",
        "state/_strings.json"}) {
    SCOPED_TRACE(name);
    const std::string file = FileOf(5, name);
    const std::string saved = TextOfFile(file);
    fs::remove(file);
    ExpectDamage(PathOf(5), name);
    ReplaceFile(file, saved);
    EXPECT_TRUE(LoadStatus(PathOf(5)).ok());
  }
}

TEST_F(DamagedFileTest, AnItemByItsOwnPathIsCheckedByTheCheckpointsList) {
  ChangeWord(FileOf(5, "meta/metadata"), "0.125", "0.925");
  ExpectDamage(FileOf(5, "meta"), "meta/metadata");
  const auto text = ReadCheckedFile(FileOf(5, "meta/metadata"));
  EXPECT_EQ(text.status().code(), StatusCode::kDataLoss);
  fs::remove(FileOf(5, "meta/metadata"));
  EXPECT_EQ(ReadCheckedFile(FileOf(5, "meta/metadata")).status().code(),
            StatusCode::kDataLoss);
  EXPECT_EQ(ReadCheckedFile(FileOf(5, "meta/other")).status().code(),
            StatusCode::kNotFound);
  ReplaceFile(FileOf(5, "meta/mine"), "mine");
  EXPECT_EQ(*ReadCheckedFile(FileOf(5, "meta/mine")), "mine");
}

TEST_F(DamagedFileTest, AMissingItemIsNamed) {
  for (const char* item : {"meta", "state"}) {
    SCOPED_TRACE(item);
    fs::rename(FileOf(5, item), scratch_ / "aside");
    ExpectDamage(PathOf(5), "item \"" + std::string(item) + "\"");
    // The other item can still be opened by its name.
    OpenOptions other;
    other.item = item == std::string("meta") ? "state" : "meta";
    EXPECT_TRUE(LoadStatus(PathOf(5), other).ok());
    other.item = item;
    EXPECT_EQ(LoadStatus(PathOf(5), other).code(), StatusCode::kDataLoss);
    fs::rename(scratch_ / "aside", FileOf(5, item));
  }
}

// Without these files, nothing in the directory shows that it was an item.
TEST_F(DamagedFileTest, AnItemThatLostAllItsHeadsIsNotLeftOut) {
  for (const char* name : {"_METADATA", "manifest.ocdbt", "_sharding"}) {
    fs::remove(FileOf(5, "state/" + std::string(name)));
  }
  ExpectDamage(PathOf(5), "state/_METADATA");
}

// Reading only the arrays would give a different tree than the saved one.
TEST_F(DamagedFileTest, ATreeThatLostItsMetadataIsNoBareDatabase) {
  fs::remove(FileOf(5, "state/_METADATA"));
  fs::remove(FileOf(5, "state/_sharding"));
  ExpectDamage(PathOf(5), "state/_METADATA");
  EXPECT_TRUE(LoadStatus(FileOf(5, "state/manifest.ocdbt")).ok());
}

TEST_F(DamagedFileTest, ListsOfAnotherSaveAreRefused) {
  SaveStep(6);
  for (const char* name : {"_HOLDFAST_DIGESTS", "state/_HOLDFAST_DIGESTS"}) {
    SCOPED_TRACE(name);
    const std::string saved = TextOfFile(FileOf(5, name));
    ReplaceFile(FileOf(5, name), TextOfFile(FileOf(6, name)));
    ExpectDamage(PathOf(5), "");
    ReplaceFile(FileOf(5, name), saved);
  }
}

TEST_F(DamagedFileTest, ItemsOfAnotherSaveAreRefused) {
  SaveStep(6);
  fs::remove_all(FileOf(5, "state"));
  fs::rename(FileOf(6, "state"), FileOf(5, "state"));
  ExpectDamage(PathOf(5), "state/_HOLDFAST_DIGESTS");
}

TEST_F(DamagedFileTest, RemovedListsAreNotedAndAreDamage) {
  for (const char* name : {"_HOLDFAST_DIGESTS", "state/_HOLDFAST_DIGESTS"}) {
    SCOPED_TRACE(name);
    fs::rename(FileOf(5, name), scratch_ / "aside");
    const auto loaded = LoadCheckpoint(Place(PathOf(5)), {});
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    ASSERT_EQ(loaded->notes.size(), 1u);
    EXPECT_THAT(loaded->notes[0], HasSubstr(FileOf(5, name) + " is gone"));
    const auto report = VerifyCheckpoint(Place(PathOf(5)));
    ASSERT_EQ(report->damages.size(), 1u);
    EXPECT_EQ(report->damages[0].file, name);
    fs::rename(scratch_ / "aside", FileOf(5, name));
  }
}

// Stock Orbax writes such checkpoints, as did holdfast before its markers
// mentioned lists.
TEST_F(DamagedFileTest, WithoutAWordOfListsNothingIsNoted) {
  fs::remove(FileOf(5, "_HOLDFAST_DIGESTS"));
  fs::remove(FileOf(5, "state/_HOLDFAST_DIGESTS"));
  ReplaceFile(FileOf(5, "commit_success.txt"), "Checkpoint commit was ...");
  const auto loaded = LoadCheckpoint(Place(PathOf(5)), {});
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_THAT(loaded->notes, IsEmpty());
  EXPECT_THAT(VerifyCheckpoint(Place(PathOf(5)))->damages, IsEmpty());
  ChangeWord(FileOf(5, "meta/metadata"), "0.125", "0.925");
  EXPECT_TRUE(LoadStatus(PathOf(5)).ok());
}

// Damage that the files themselves reveal, as in stock Orbax's checkpoints.
class UnlistedFileTest : public DamagedFileTest {
 protected:
  void SetUp() override {
    SaveStep(5);
    WriteBelow(PathOf(5), "metrics/metrics", R"({"loss": 0.5})");
    fs::remove(FileOf(5, "_HOLDFAST_DIGESTS"));
    fs::remove(FileOf(5, "state/_HOLDFAST_DIGESTS"));
    ReplaceFile(FileOf(5, "commit_success.txt"), "Checkpoint commit was ...");
    ASSERT_TRUE(LoadStatus(PathOf(5)).ok());
  }
};

TEST_F(UnlistedFileTest, MetricsThatAreNoJsonAreDamageOfTheStep) {
  EXPECT_EQ((*ListSteps(root_))[0].damage, "");
  ReplaceFile(FileOf(5, "metrics/metrics"), R"({"loss": 0.5)");
  const auto steps = ListSteps(root_);
  EXPECT_TRUE((*steps)[0].committed);
  EXPECT_THAT((*steps)[0].damage, HasSubstr("metrics"));
  EXPECT_EQ((*steps)[0].metrics, "");
}

TEST_F(UnlistedFileTest, ADocumentThatIsNoTextIsDataLoss) {
  ReplaceFile(FileOf(5, "meta/metadata"), "\x0c\xdb\x20");
  const Status status = LoadStatus(PathOf(5));
  EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.ToString();
  EXPECT_THAT(status.message(), HasSubstr("UTF-8"));
}

TEST_F(UnlistedFileTest, ATreeThatIsListedHasItsStructure) {
  ChangeWord(FileOf(5, "_CHECKPOINT_METADATA"), "\"s\"",
             R"("orbax.checkpoint.x.PyTreeCheckpointHandler")");
  // Besides these, the item's own directory shows that it is an item.
  fs::remove(FileOf(5, "state/_METADATA"));
  fs::remove(FileOf(5, "state/_sharding"));
  fs::remove(FileOf(5, "state/commit_success.txt"));
  const Status status = LoadStatus(PathOf(5));
  EXPECT_EQ(status.code(), StatusCode::kNotFound) << status.ToString();
  EXPECT_THAT(status.message(), HasSubstr("_METADATA"));
}

TEST_F(DamagedFileTest, ADamagedNewestStepIsAnErrorThatNamesTheWholeOne) {
  SaveStep(6, false);
  SaveStep(7);
  const std::string words = "step 7 of " + root_ + " was committed";
  for (const char* name : {"state/_METADATA", "state", "meta"}) {
    SCOPED_TRACE(name);
    fs::rename(FileOf(7, name), scratch_ / "aside");
    const Status status = LoadStatus(root_);
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.ToString();
    EXPECT_THAT(status.message(), HasSubstr(words));
    EXPECT_THAT(status.message(), HasSubstr("newest step that is whole is 6"));
    OpenOptions asked;
    asked.step = 6;
    EXPECT_TRUE(LoadStatus(root_, asked).ok());
    const auto report = VerifyCheckpoint(Place(root_));
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    EXPECT_EQ(report->damages.size(), 1u);
    const auto steps = ListSteps(root_);
    ASSERT_EQ(steps->size(), 3u);
    EXPECT_TRUE((*steps)[2].committed);
    EXPECT_NE((*steps)[2].damage, "");
    EXPECT_EQ((*steps)[1].damage, "");
    fs::rename(scratch_ / "aside", FileOf(7, name));
  }
  EXPECT_TRUE(LoadStatus(root_).ok());
}

TEST_F(DamagedFileTest, WithNoWholeStepTheErrorSaysSo) {
  fs::remove_all(FileOf(5, "state"));
  const Status status = LoadStatus(root_);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("no other step is whole"));
}

// Leftovers of a save that never finished, and directories that are not steps.
TEST_F(DamagedFileTest, WhatWasNeverCommittedIsPassedOver) {
  fs::create_directories(PathOf(6) + "/state/d");
  WriteBelow(PathOf(7), "_CHECKPOINT_METADATA",
             R"({"init_timestamp_nsecs": 5})");
  WriteBelow(PathOf(8), "notes.txt", "mine");
  WriteBelow(root_ + "/9.orbax-checkpoint-tmp", "_CHECKPOINT_METADATA", "{}");
  OpenOptions open;
  const auto opened = OpenCheckpoint(Place(root_), open);
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  EXPECT_EQ((*opened)->info().step, 5);
}

// An item that some steps never had is not damage.
TEST_F(DamagedFileTest, AnItemThatTheNewestStepNeverHadComesFromAnOlderOne) {
  ASSERT_TRUE(Save(PathOf(6), StateTree(), {.sync = false}).ok());
  SaveOptions v1;
  v1.format = Format::kOrbaxV1;
  v1.sync = false;
  ASSERT_TRUE(Save(PathOf(7), StateTree(), v1).ok());
  OpenOptions open;
  open.item = "meta";
  const auto opened = OpenCheckpoint(Place(root_), open);
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
}

TEST_F(DamagedFileTest, ASingleTreeIsCheckedLikewise) {
  SaveOptions options;
  options.sync = false;
  options.custom_metadata = R"({"run": "blue"})";
  for (const bool use_ocdbt : {true, false}) {
    options.use_ocdbt = use_ocdbt;
    fs::remove_all(PathOf(6));
    ASSERT_TRUE(Save(PathOf(6), StateTree(), options).ok());
    const std::string metadata = FileOf(6, "_CHECKPOINT_METADATA");
    const std::string saved = TextOfFile(metadata);
    ChangeWord(metadata, "blue", "blur");
    ExpectDamage(PathOf(6), "_CHECKPOINT_METADATA");
    ReplaceFile(metadata, saved);
    fs::remove(FileOf(6, "_METADATA"));
    EXPECT_FALSE(LoadStatus(PathOf(6)).ok());
    EXPECT_EQ(VerifyCheckpoint(Place(PathOf(6)))->damages.size(), 1u);
    EXPECT_EQ(LoadStatus(root_).code(), StatusCode::kDataLoss);
  }
}

class DamagedObjectTest : public DamagedFileTest {
 protected:
  void SetUp() override {
    SaveStep(5);
    SaveStep(7);
    const auto store = Place(root_).OpenStore();
    ASSERT_TRUE(WalkFiles(Place(root_), [&](const WalkedFile& file) {
                  const Bytes content = store->Read(file.path).value();
                  mem_.Put("run/" + file.path, content.view());
                }).ok());
  }
  void Remove(const std::string& key) {
    ASSERT_TRUE(Place("mem://test/run").OpenStore()->Delete(key).ok());
  }

  MemBucketForTest mem_;
};

TEST_F(DamagedObjectTest, DamageIsSeenInABucket) {
  const std::string root = "mem://test/run";
  ASSERT_TRUE(LoadStatus(root).ok());
  for (const Change& change : kChanges) {
    SCOPED_TRACE(change.file);
    const std::string key = "run/7/" + change.file;
    const std::string saved = mem_.Content(key);
    std::string text = saved;
    text.replace(text.find(change.word), change.word.size(), change.other);
    mem_.Put(key, text);
    ExpectDamage(root + "/7", change.file);
    mem_.Put(key, saved);
  }
  const std::string meta = mem_.Content("run/7/meta/metadata");
  Remove("7/meta/metadata");
  ExpectDamage(root + "/7", "meta");
  mem_.Put("run/7/meta/metadata", meta);
  Remove("7/state/_METADATA");
  const Status status = LoadStatus(root);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.ToString();
  EXPECT_THAT(status.message(), HasSubstr("newest step that is whole is 5"));
  OpenOptions asked;
  asked.step = 5;
  EXPECT_TRUE(LoadStatus(root, asked).ok());
}

// Each list of a checkpoint is read once, together with everything else that
// opening reads.
TEST_F(DamagedObjectTest, ChecksCostNoRoundTripsOfTheirOwn) {
  mem_.bucket->ResetCounters();
  ASSERT_TRUE(OpenCheckpoint(Place("mem://test/run/7")).ok());
  int list_count = 0;
  for (const auto& request : mem_.bucket->requests()) {
    if (request.find("7/_HOLDFAST_DIGESTS") != std::string::npos) ++list_count;
  }
  EXPECT_LE(list_count, 1);
  EXPECT_LE(mem_.bucket->counters().round_trips, 3u)
      << testing::PrintToString(mem_.bucket->requests());
}

}  // namespace
}  // namespace holdfast
