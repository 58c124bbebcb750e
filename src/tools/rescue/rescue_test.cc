#include "holdfast/tools/rescue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "formats/ocdbt/database.h"
#include "ground/tensor/copy.h"
#include "holdfast/checkpoint.h"
#include "holdfast/tools/convert.h"
#include "stores/storage/file_store.h"
#include "twins/local_ranks.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

Array Numbers(Shape shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(static_cast<size_t>(ElementCount(shape)) * 4, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return Array::FromBytes(DType::kInt32, std::move(shape), bytes.data());
}

Tree SmallTree() {
  return Tree::Dict(
      {{"params", Tree::Dict({{"b", Tree(Numbers({20}, 1))},
                              {"w", Tree(Numbers({64, 32}, 2))}})},
       {"name", Tree("run seven")},
       {"step", Tree(int64_t{7})}});
}

class RescueTest : public ::testing::Test {
 protected:
  std::string Put(const std::string& name, SaveOptions options = {}) {
    options.sync = false;
    const auto saved = Save(scratch_ / name, SmallTree(), options);
    EXPECT_TRUE(saved.ok()) << saved.status().ToString();
    return scratch_ / name;
  }

  std::string As(Format format, const std::string& name) {
    ConvertOptions options;
    options.format = format;
    options.sync = false;
    const auto made =
        Convert(Put("source-of-" + name), scratch_ / name, options);
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return scratch_ / name;
  }

  RescueResult Rescued(const std::string& source,
                       const std::string& fill = "") {
    RescueOptions options;
    options.sync = false;
    options.fill = fill;
    out_ = scratch_ / ("out" + std::to_string(++count_));
    const auto result = Rescue(source, out_, options);
    EXPECT_TRUE(result.ok()) << result.status().ToString();
    return result.ok() ? *result : RescueResult();
  }

  // Returns the names of the lost leaves; checks that all other leaves are
  // unchanged in the output.
  std::vector<std::string> Lost(const RescueResult& result) {
    std::vector<std::string> names;
    for (const LostLeaf& lost : result.lost) {
      if (!lost.is_filled) names.push_back(lost.leaf);
    }
    const auto out = Open(out_);
    EXPECT_TRUE(out.ok()) << out.status().ToString();
    if (!out.ok()) return names;
    const auto check = [&](const char* name, const Array& want) {
      if (std::ranges::count(names, name) > 0) return;
      const auto got = (*out)->Read(name);
      ASSERT_TRUE(got.ok()) << got.status().ToString();
      ASSERT_EQ(got->shape(), want.shape());
      EXPECT_EQ(std::string_view(got->view().data, got->byte_count()),
                std::string_view(want.view().data, want.byte_count()))
          << name;
    };
    check("params.b", Numbers({20}, 1));
    check("params.w", Numbers({64, 32}, 2));
    return names;
  }

  void Cut(const std::string& path, uint64_t byte_count) {
    fs::resize_file(path, byte_count);
  }

  ScratchDirectory scratch_;
  std::string out_;
  int count_ = 0;
};

TEST_F(RescueTest, ACheckpointThatIsWholeIsCopied) {
  const RescueResult result = Rescued(Put("a"));
  EXPECT_TRUE(result.is_whole());
  EXPECT_EQ(result.leaf_count, 4u);
  EXPECT_THAT(Lost(result), IsEmpty());
  const auto out = Open(out_);
  EXPECT_EQ((*out)->info().custom_metadata, "");
  EXPECT_EQ(*(*out)->ReadText("name"), "run seven");
}

TEST_F(RescueTest, ADatabaseWithoutItsManifest) {
  const std::string source = Put("a");
  fs::remove(source + "/manifest.ocdbt");
  const RescueResult result = Rescued(source);
  EXPECT_TRUE(result.is_whole());
  EXPECT_THAT(Lost(result), IsEmpty());
  EXPECT_FALSE(fs::exists(source + "/manifest.ocdbt"));
}

// The processes' databases have the keys, too.
TEST_F(RescueTest, AMergedDatabaseOfWhichOnlyThoseOfTheProcessesAreLeft) {
  const std::string source = Put("a");
  fs::remove(source + "/manifest.ocdbt");
  fs::remove_all(source + "/d");
  EXPECT_TRUE(Rescued(source).is_whole());
}

TEST_F(RescueTest, ADatabaseWithoutAnyManifestAndTree) {
  const std::string source = Put("a");
  fs::remove(source + "/manifest.ocdbt");
  fs::remove(source + "/ocdbt.process_0/manifest.ocdbt");
  fs::remove(source + "/_METADATA");
  const RescueResult result = Rescued(source);
  EXPECT_FALSE(result.names_are_known);
  EXPECT_EQ(result.leaf_count, 3u);  // a string is not an array
  EXPECT_THAT(Lost(result), ElementsAre("name"));
}

TEST_F(RescueTest, AnUnfinishedSaveWithoutOneChunk) {
  SaveOptions options;
  options.use_ocdbt = false;
  const std::string source = scratch_ / "a.orbax-checkpoint-tmp-12";
  fs::rename(Put("a", options), source);
  fs::remove(source + "/params.w/0.0");
  const RescueResult result = Rescued(source);
  EXPECT_THAT(Lost(result), ElementsAre("params.w"));
  EXPECT_EQ(result.lost[0].file, "params.w/0.0");
  EXPECT_TRUE(result.names_are_known);
  EXPECT_EQ(result.leaf_count, 3u);
  const auto out = Open(out_);
  EXPECT_THAT((*out)->info().custom_metadata,
              HasSubstr(R"("lost": ["params.w"])"));
}

// zarr reads an absent chunk as the fill value. But unless an intact file says
// that the writer left the chunk out, it is lost.
TEST_F(RescueTest, AnAbsentChunkIsNoFillValue) {
  SaveOptions options;
  options.use_ocdbt = false;
  options.write_digests = false;
  const std::string source = Put("a", options);
  for (const char* name :
       {"/_METADATA", "/_CHECKPOINT_METADATA", "/params.w/0.0"}) {
    fs::remove(source + name);
  }
  const auto opened = Open(source + "/params.w/.zarray");
  ASSERT_TRUE(opened.ok());
  EXPECT_TRUE((*opened)->Read(size_t{0}).ok());
  const RescueResult result = Rescued(source);
  EXPECT_THAT(Lost(result), ElementsAre("name", "params.w"));
}

TEST_F(RescueTest, WhatIsLostIsTakenFromANeighbour) {
  SaveOptions options;
  options.use_ocdbt = false;
  const std::string source = Put("a", options);
  fs::remove_all(source + "/params.w");
  const RescueResult result = Rescued(source, Put("b"));
  EXPECT_THAT(Lost(result), IsEmpty());
  EXPECT_EQ(result.filled_count, 1u);
  EXPECT_FALSE(result.is_whole());
  const auto out = Open(out_);
  EXPECT_THAT((*out)->info().custom_metadata,
              HasSubstr(R"("filled": ["params.w"])"));
}

TEST_F(RescueTest, ACutSafetensorsFile) {
  const std::string source = As(Format::kSafetensors, "m.safetensors");
  // The last tensor is the largest.
  Cut(source, fs::file_size(source) - 1);
  const RescueResult result = Rescued(source);
  EXPECT_EQ(result.lost.size(), 1u);
  EXPECT_THAT(result.lost[0].reason, HasSubstr("are gone"));
  Lost(result);
}

TEST_F(RescueTest, AnArchiveWithoutItsDirectory) {
  const std::string source = As(Format::kNpz, "m.npz");
  const std::string whole = ReadTestFile(source);
  Cut(source, whole.find("PK\x01\x02"));
  RescueResult result = Rescued(source);
  EXPECT_THAT(Lost(result), IsEmpty());
  EXPECT_FALSE(result.names_are_known);
  // Cut the file in the middle of a member. The tree, which comes last, is
  // lost, too.
  Cut(source, whole.find("params.w.npy") + 200);
  result = Rescued(source);
  EXPECT_THAT(Lost(result), ElementsAre("params.w"));
  EXPECT_THAT(result.lost[0].reason, HasSubstr("ends behind the end"));
}

// The scan must go on after such a member, and not loop.
TEST_F(RescueTest, AnArchiveWhoseMemberContradictsItsOwnSize) {
  const std::string source = As(Format::kNpz, "m.npz");
  std::string bytes = ReadTestFile(source);
  bytes.resize(bytes.find("PK\x01\x02"));
  bytes[bytes.find("PK\x07\x08") + 12] ^= 1;  // the second of the two sizes
  std::ofstream(source, std::ios::binary) << bytes;
  EXPECT_THAT(Lost(Rescued(source)), ElementsAre("params.b"));
}

// Supplies the elements of an array in memory. Because it is a custom reader,
// all ranks write some of the chunks.
class NumbersReader : public ArrayReader {
 public:
  explicit NumbersReader(Array array) : array_(std::move(array)) {}
  Status Read(const Shape& origin, const ArrayView& target) const override {
    CopyStrided(Subview(array_.view(), {origin, target.shape}), target);
    return Status();
  }

 private:
  const Array array_;
};

Tree SharedTree() {
  std::vector<std::pair<std::string, Tree>> leaves;
  for (int i = 0; i < 6; ++i) {
    leaves.emplace_back("w" + std::to_string(i),
                        Tree::DeferredArray(DType::kInt32, {100, 30},
                                            std::make_shared<NumbersReader>(
                                                Numbers({100, 30}, 50 + i))));
  }
  return Tree::Dict(std::move(leaves));
}

// Returns the names of the arrays that have a value below `directory`.
std::set<std::string> ArraysIn(const std::string& source,
                               const std::string& directory) {
  std::set<std::string> names;
  FileStore store(source);
  const auto database = ocdbt::Database::Open(&store, "");
  EXPECT_TRUE(database.ok());
  EXPECT_TRUE(
      (*database)
          ->ForEach("", "", "",
                    [&](std::string_view key, const ocdbt::ValueRef& value) {
                      if (!value.is_inline &&
                          value.file.starts_with(directory)) {
                        names.emplace(key.substr(0, key.find('/')));
                      }
                      return Status();
                    })
          .ok());
  return names;
}

TEST_F(RescueTest, ARankIsMissing) {
  const std::string source = scratch_ / "a";
  OnThreads(3, kPatienceSeconds, [&](ProcessGroup& group) {
    SaveOptions options;
    options.group = &group;
    options.sync = false;
    options.chunk_bytes = 20000;
    const auto saved = Save(source, SharedTree(), options);
    EXPECT_TRUE(saved.ok()) << saved.status().ToString();
  });
  const std::set<std::string> gone = ArraysIn(source, "ocdbt.process_1/");
  ASSERT_FALSE(gone.empty());
  ASSERT_LT(gone.size(), 6u);
  fs::remove_all(source + "/ocdbt.process_1");
  for (const bool has_manifest : {true, false}) {
    if (!has_manifest) fs::remove(source + "/manifest.ocdbt");
    const RescueResult result = Rescued(source);
    std::set<std::string> lost;
    for (const LostLeaf& leaf : result.lost) lost.insert(leaf.leaf);
    EXPECT_EQ(lost, gone);
    const auto out = Open(out_);
    ASSERT_TRUE(out.ok());
    for (int i = 0; i < 6; ++i) {
      const std::string name = "w" + std::to_string(i);
      if (gone.contains(name)) continue;
      const auto got = (*out)->Read(name);
      ASSERT_TRUE(got.ok()) << got.status().ToString();
      const Array want = Numbers({100, 30}, 50 + i);
      EXPECT_EQ(std::string_view(got->view().data, got->byte_count()),
                std::string_view(want.view().data, want.byte_count()));
    }
  }
}

// Each item of a composite is judged separately.
TEST_F(RescueTest, ItemsThatCannotBeOpenedAreLostByThemselves) {
  SaveOptions plain;
  plain.write_digests = false;
  for (const char* item : {"good", "torn", "gone"}) {
    Put(std::string("7/") + item, plain);
    fs::remove(scratch_ / "7/" + item + "/_CHECKPOINT_METADATA");
  }
  const std::string source = scratch_ / "7";
  fs::rename(source + "/good", source + "/good.orbax-checkpoint-tmp-3");
  fs::remove_all(source + "/gone");
  Cut(source + "/torn/_METADATA", 100);
  WriteTestFile(source + "/words/metadata", "\xff\xfe");
  WriteTestFile(
      source + "/_CHECKPOINT_METADATA",
      R"({"item_handlers": {"good": "orbax.PyTreeCheckpointHandler",)"
      R"( "torn": "orbax.PyTreeCheckpointHandler", "gone": "orbax.X",)"
      R"( "words": "orbax.JsonCheckpointHandler"}, "metrics": {},)"
      R"( "performance_metrics": {}, "init_timestamp_nsecs": 1,)"
      R"( "commit_timestamp_nsecs": null, "custom_metadata": {"run": 3}})");
  const RescueResult result = Rescued(source);
  std::vector<std::string> lost;
  for (const LostLeaf& leaf : result.lost) lost.push_back(leaf.leaf);
  EXPECT_THAT(lost, ElementsAre("gone", "torn.name", "words"));
  const auto out = Open(out_);
  ASSERT_TRUE(out.ok()) << out.status().ToString();
  EXPECT_TRUE((*out)->info().items.contains("good"));
  EXPECT_TRUE((*out)->info().items.contains("torn"));
  EXPECT_THAT((*out)->info().custom_metadata, HasSubstr(R"("run": 3)"));
  for (const char* item : {"good", "torn"}) {
    const auto got = (*out)->Read(std::string(item) + ".params.w");
    ASSERT_TRUE(got.ok()) << got.status().ToString();
    const Array want = Numbers({64, 32}, 2);
    EXPECT_EQ(std::string_view(got->view().data, got->byte_count()),
              std::string_view(want.view().data, want.byte_count()));
  }
  EXPECT_EQ(*(*out)->ReadText("good.name"), "run seven");
}

// A chunk of another array has the right size and its own valid checksum.
TEST_F(RescueTest, AnothersChunkIsNotTaken) {
  for (const Compression compression :
       {Compression::kZstd, Compression::kNone}) {
    SaveOptions options;
    options.use_ocdbt = false;
    options.compression = compression;
    const std::string name =
        "a" + std::to_string(static_cast<int>(compression));
    const std::string source = Put(name, options);
    const std::string other = scratch_ / "other" + name;
    SaveOptions save = options;
    save.sync = false;
    ASSERT_TRUE(
        Save(other, Tree::Dict({{"w", Tree(Numbers({64, 32}, 99))}}), save)
            .ok());
    fs::copy_file(other + "/w/0.0", source + "/params.w/0.0",
                  fs::copy_options::overwrite_existing);
    EXPECT_THAT(Lost(Rescued(source)), ElementsAre("params.w"));
  }
}

// Without its list, nothing shows that a raw tensor has changed. So the result
// does not call the tensor intact.
TEST_F(RescueTest, WhatCannotBeCheckedIsSaid) {
  const auto flip = [](const std::string& path, uint64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
  };
  SaveOptions raw;
  raw.compression = Compression::kNone;
  for (const char* damage : {"flipped", "cut", "empty", "gone"}) {
    const std::string source = Put(damage, raw);
    const std::string list = source + "/_HOLDFAST_DIGESTS";
    const std::string name = damage;
    if (name == "flipped") flip(list, 50);
    if (name == "cut") Cut(list, fs::file_size(list) / 2);
    if (name == "empty") Cut(list, 0);
    if (name == "gone") fs::remove(list);
    const RescueResult result = Rescued(source);
    EXPECT_FALSE(result.is_whole()) << damage;
    EXPECT_FALSE(result.checksums_are_known) << damage;
    EXPECT_THAT(result.lost, IsEmpty()) << damage;
    EXPECT_THAT(result.unchecked, ::testing::Contains("params.w")) << damage;
    const auto out = Open(out_);
    ASSERT_TRUE(out.ok());
    EXPECT_THAT((*out)->info().custom_metadata, HasSubstr("unchecked"));
    const bool is_said_gone =
        std::ranges::any_of(result.notes, [](const std::string& note) {
          return note.find("_HOLDFAST_DIGESTS is gone") != note.npos;
        });
    EXPECT_EQ(is_said_gone, name == "gone") << damage;
  }
}

TEST_F(RescueTest, AFormatWithoutChecksumsIsNotCalledWhole) {
  const RescueResult result =
      Rescued(As(Format::kSafetensors, "m.safetensors"));
  EXPECT_THAT(result.lost, IsEmpty());
  EXPECT_TRUE(result.checksums_are_known);
  EXPECT_THAT(result.unchecked,
              ::testing::IsSupersetOf({"params.b", "params.w"}));
  EXPECT_FALSE(result.is_whole());
  EXPECT_TRUE(Rescued(As(Format::kNpz, "m.npz")).is_whole());
}

TEST_F(RescueTest, RefusesATargetThatIsThere) {
  const std::string source = Put("a");
  const auto result = Rescue(source, Put("b"));
  EXPECT_EQ(result.status().code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(result.status().ToString(), HasSubstr("already exists."));
}

TEST_F(RescueTest, WritesNothingWhereNothingIsLeft) {
  const std::string source = Put("a");
  for (const auto& entry : fs::recursive_directory_iterator(source)) {
    if (entry.is_regular_file() && entry.path().filename() != "_METADATA") {
      Cut(entry.path(), 0);
    }
  }
  const auto result = Rescue(source, scratch_ / "out");
  EXPECT_EQ(result.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(result.status().ToString(),
              HasSubstr("nothing can be recovered"));
  EXPECT_FALSE(fs::exists(scratch_ / "out"));
}

TEST_F(RescueTest, RefusesADirectoryOfSteps) {
  Put("run/1");
  Put("run/2");
  const auto result = Rescue(scratch_ / "run", scratch_ / "out");
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  const auto none = Rescue(scratch_ / "nowhere", scratch_ / "out");
  EXPECT_EQ(none.status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace holdfast
