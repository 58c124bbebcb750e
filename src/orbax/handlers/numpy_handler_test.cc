#include <filesystem>
#include <fstream>

#include "engine/checkpoint/opened_checkpoint.h"
#include "formats/ocdbt/database.h"
#include "holdfast/holdfast.h"
#include "holdfast/orbax/orbax.h"
#include "orbax/handlers/handler_test_util.h"
#include "stores/storage/file_store.h"

namespace holdfast {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

namespace fs = std::filesystem;

class NumpyHandlerTest : public testing::TestWithParam<StoredAs> {
 protected:
  ParamInfo Info(const std::string& name) const {
    return InfoOf(scratch_.path(), name, GetParam());
  }

  const ScratchDirectory scratch_;
  NumpyHandler handler_;
};

INSTANTIATE_TEST_SUITE_P(StoredAs, NumpyHandlerTest,
                         testing::Values(StoredAs{true, false},
                                         StoredAs{true, true},
                                         StoredAs{false, false},
                                         StoredAs{false, true}),
                         [](const auto& info) { return info.param.Name(); });

TEST_P(NumpyHandlerTest, EveryDTypeComesBack) {
  std::vector<Tree> values;
  std::vector<ParamInfo> infos;
  for (const DType dtype : StorableDTypes()) {
    if (GetParam().use_zarr3 && dtype == DType::kInt2) continue;
    values.emplace_back(RandomArray(dtype, {3, 5}, 1));
    infos.push_back(Info("a." + std::string(DTypeName(dtype))));
  }
  Write(handler_, values, infos);
  EXPECT_EQ(Read(handler_, infos), values);
}

TEST_P(NumpyHandlerTest, LaterCallsAddAndReplace) {
  const Tree a(RandomArray(DType::kInt8, {300, 10}, 1));
  const Tree b(RandomArray(DType::kInt8, {7}, 2));
  const Tree other(RandomArray(DType::kFloat32, {2, 2}, 3));
  const SaveArgs small_chunks{.chunk_byte_size = 600};
  Write(handler_, {a}, {Info("a")}, {small_chunks});
  Write(handler_, {b}, {Info("b")});
  EXPECT_EQ(Read(handler_, {Info("b"), Info("a")}), (std::vector<Tree>{b, a}));
  Write(handler_, {other}, {Info("a")});
  EXPECT_EQ(Read(handler_, {Info("a"), Info("b")}),
            (std::vector<Tree>{other, b}));
}

// Old fingerprints would be wrong for the new array.
TEST_P(NumpyHandlerTest, ASavedItemThatItChangesHasNoFingerprintsLeft) {
  const std::string item = scratch_ / "item";
  SaveOptions options;
  options.use_ocdbt = GetParam().use_ocdbt;
  options.zarr_format = GetParam().use_zarr3 ? 3 : 2;
  options.fingerprints = true;
  const Tree before(RandomArray(DType::kInt8, {6}, 3));
  const Tree after(RandomArray(DType::kInt8, {6}, 4));
  ASSERT_TRUE(Save(item, Tree::Dict({{"w", before}}), options).ok());
  EXPECT_TRUE(fs::exists(item + "/_HOLDFAST_FINGERPRINTS"));
  Write(handler_, {after}, {InfoOf(item, "w", GetParam())});
  EXPECT_FALSE(fs::exists(item + "/_HOLDFAST_DIGESTS"));
  OpenOptions open;
  open.fingerprints = true;
  const auto opened = OpenCheckpoint(Place(item), open);
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  EXPECT_EQ((*opened)->leaves().at(0).fingerprint, "");
  const auto read = (*opened)->Read("w");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(std::string_view(read->view().data, 6),
            std::string_view(after.array().view().data, 6));
}

TEST_P(NumpyHandlerTest, CastsAndCutsAsTheArgsSay) {
  const Tree value(Int32s({4, 2}, {0, 1, 2, 3, 4, 5, 6, 700}));
  SaveArgs args{.dtype = DType::kInt16, .chunk_byte_size = 8};
  Write(handler_, {value}, {Info("a")}, {args});
  const auto metadata = handler_.Metadata(std::vector{Info("a")});
  ASSERT_TRUE(metadata.ok()) << metadata.status().ToString();
  const auto& array = std::get<ArrayMetadata>(metadata->front());
  EXPECT_EQ(array.name, "a");
  EXPECT_EQ(array.directory, scratch_.path());
  EXPECT_EQ(array.dtype, DType::kInt16);
  EXPECT_EQ(array.shape, (Shape{4, 2}));
  EXPECT_EQ(array.storage->chunk_shape, (Shape{2, 2}));
  EXPECT_EQ(array.sharding, std::nullopt);
  EXPECT_EQ(Read(handler_, {Info("a")}, {RestoreArgs{.dtype = DType::kInt32}}),
            (std::vector<Tree>{value}));
}

TEST_P(NumpyHandlerTest, MetadataMayHaveAnotherName) {
  NumpyHandler handler({.metadata_key = "meta"});
  const Tree value(Int32s({2}, {1, 2}));
  Write(handler, {value}, {Info("a")});
  EXPECT_EQ(Read(handler, {Info("a")}), (std::vector<Tree>{value}));
  EXPECT_EQ(handler_.Deserialize(std::vector{Info("a")}, {}).status().code(),
            StatusCode::kNotFound);
}

TEST_P(NumpyHandlerTest, MissingArraysAreNamed) {
  Write(handler_, {Tree(Int32s({1}, {1}))}, {Info("a")});
  const Status status =
      handler_.Deserialize(std::vector{Info("nope")}, {}).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("nope"));
}

TEST_P(NumpyHandlerTest, RefusesWhatIsNoArray) {
  EXPECT_EQ(SerializeNow(handler_, {Tree("text")}, {Info("a")}).message(),
            "param a: a leaf of type \"str\" is neither an array nor a number");
  EXPECT_EQ(SerializeNow(handler_, {}, {}).message(),
            "Cannot pass TypeHandler input of length 0.");
  EXPECT_EQ(SerializeNow(handler_, {Tree(1)}, {}).message(),
            "Found input args with mismatched lengths.");
  EXPECT_EQ(handler_.Deserialize({}, {}).status().message(),
            "Cannot pass TypeHandler input of length 0.");
}

TEST(NumpyHandler, DirectoriesThatAreGoneSaySoInOrbaxsWords) {
  const ScratchDirectory scratch;
  NumpyHandler handler;
  const ParamInfo info = InfoOf(scratch.path(), "a", {false, false});
  EXPECT_EQ(
      handler.Deserialize(std::vector{info}, {}).status().ToString(),
      NotFoundError("Individual parameter subdirectory not found at path: " +
                    scratch / "a.")
          .ToString());
  fs::create_directory(scratch / "a");
  EXPECT_EQ(
      handler.Deserialize(std::vector{info}, {}).status().ToString(),
      NotFoundError(
          "File not found: " +
          scratch / "a/.zarray. In many cases, "
                    "this results from copying a checkpoint without using the "
                    "`-a` flag.")
          .ToString());
}

TEST(NumpyHandler, OneCallIsOneGeneration) {
  const ScratchDirectory scratch;
  NumpyHandler handler({.ocdbt_process_id = "w7"});
  const Tree value(Int32s({1}, {1}));
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_TRUE(
        SerializeNow(handler, {value}, {InfoOf(scratch.path(), name)}).ok());
  }
  FileStore store(scratch.path());
  const auto database = ocdbt::Database::Open(&store, "ocdbt.process_w7/");
  ASSERT_TRUE(database.ok()) << database.status().ToString();
  EXPECT_EQ((*database)->manifest().versions.back().generation, 3u);
  EXPECT_FALSE(IsOcdbtCheckpoint(scratch.path()));
  ASSERT_TRUE(handler.Finalize(scratch.path()).ok());
  EXPECT_TRUE(IsOcdbtCheckpoint(scratch.path()));
}

TEST(NumpyHandler, RefusesProcessIdsAndPathsThatMakeNoName) {
  const ScratchDirectory scratch;
  NumpyHandler handler({.ocdbt_process_id = "a/b"});
  const Tree value(Int32s({1}, {1}));
  EXPECT_THAT(
      SerializeNow(handler, {value}, {InfoOf(scratch.path(), "a")}).message(),
      HasSubstr("[A-Za-z0-9]+"));
  EXPECT_EQ(SerializeNow(handler, {value}, {InfoOf("rel", "a")}).message(),
            "Checkpoint path should be absolute. Got rel");
}

TEST(NumpyHandler, ReadsItemsOfTheEngineAndIsReadByIt) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "c";
  const Tree tree = Tree::Dict(
      {{"a", Tree(Int32s({2}, {1, 2}))},
       {"b", Tree::Dict({{"c", Tree(RandomArray(DType::kInt8, {900}, 3))}})}});
  ASSERT_TRUE(Save(path, tree).ok());
  NumpyHandler handler;
  EXPECT_EQ(Read(handler, {InfoOf(path, "b.c"), InfoOf(path, "a")}),
            (std::vector<Tree>{*tree.FindPath({"b", "c"}), *tree.Find("a")}));
  Write(handler, {Tree(Int32s({1}, {9}))}, {InfoOf(path, "a")});
  const auto loaded = LoadCheckpoint(Place(path));
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(*loaded->tree.Find("a"), Tree(Int32s({1}, {9})));
}

TEST(NumpyHandler, AMissingChunkIsRefusedOrZero) {
  const ScratchDirectory scratch;
  NumpyHandler handler;
  ParamInfo info = InfoOf(scratch.path(), "a", {false, false});
  Write(handler, {Tree(Int32s({4}, {1, 2, 3, 4}))}, {info},
        {SaveArgs{.chunk_byte_size = 8}});
  fs::remove(scratch / "a/1");
  EXPECT_EQ(handler.Deserialize(std::vector{info}, {}).status().code(),
            StatusCode::kNotFound);
  info.raise_array_data_missing_error = false;
  EXPECT_EQ(Read(handler, {info}),
            (std::vector<Tree>{Tree(Int32s({4}, {1, 2, 0, 0}))}));
}

TEST(NumpyHandler, DamageIsDataLoss) {
  const ScratchDirectory scratch;
  NumpyHandler handler;
  const ParamInfo info = InfoOf(scratch.path(), "a", {false, false});
  Write(handler, {Tree(RandomArray(DType::kInt8, {1000}, 1))}, {info});
  std::string text = ReadTestFile(scratch / "a/0");
  text[text.size() / 2] ^= 1;
  WriteTestFile(scratch / "a/0", text);
  EXPECT_EQ(handler.Deserialize(std::vector{info}, {}).status().code(),
            StatusCode::kDataLoss);
}

}  // namespace
}  // namespace holdfast
