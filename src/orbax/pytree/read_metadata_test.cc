#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "orbax/pytree/pytree_test_util.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

TEST(Metadata, DescribesEveryLeafWithoutItsData) {
  const ScratchDirectory scratch;
  const auto traits = std::make_shared<const ArrayTraits>(ArrayTraits{
      .sharding_json = ShardingToJson(Rows(2)), .write_shape = {2, 3}});
  const Tree item =
      Tree::Dict({{"e", Tree::Dict()},
                  {"j", Tree::JaxArray(Iota({4, 3}), traits)},
                  {"l", Tree::Tuple({Tree("text"), Tree(2.5)})},
                  {"n", Tree::None()},
                  {"w", Tree(ArrayOf<int16_t>(DType::kInt16, {2}, {1, 2}))}});
  PyTreeSaveArgs save{.item = item};
  save.custom_metadata = R"({"lr": 1})";
  const auto handler = MakeHandler({.use_ocdbt = false, .use_zarr3 = true});
  ASSERT_TRUE(handler->Save(scratch.path(), save).ok());
  // The metadata is read without the chunks.
  std::filesystem::remove_all(scratch / "w/c");
  const auto metadata = handler->Metadata(scratch.path());
  ASSERT_TRUE(metadata.ok()) << metadata.status().ToString();
  EXPECT_EQ(metadata->custom_metadata, R"({"lr": 1})");
  EXPECT_TRUE(metadata->use_zarr3);
  EXPECT_FALSE(metadata->use_ocdbt);
  EXPECT_EQ(*metadata->structure.Find("e"), Tree::Dict());
  EXPECT_EQ(*metadata->structure.Find("n"), Tree::None());
  EXPECT_EQ(metadata->structure.Find("l")->kind(), NodeKind::kList);
  EXPECT_EQ(metadata->Find({"n"}), nullptr);
  EXPECT_EQ(metadata->Find({"nope"}), nullptr);

  const auto& j = std::get<ArrayMetadata>(*metadata->Find({"j"}));
  EXPECT_EQ(j.name, "j");
  EXPECT_EQ(j.directory, scratch.path());
  EXPECT_EQ(j.shape, Shape({4, 3}));
  EXPECT_EQ(j.dtype, DType::kFloat32);
  ASSERT_TRUE(j.sharding);
  EXPECT_EQ(ShardingToJson(*j.sharding), ShardingToJson(Rows(2)));
  EXPECT_EQ(j.storage->chunk_shape, Shape({2, 3}));
  EXPECT_EQ(j.storage->write_shape, Shape({2, 3}));
  EXPECT_EQ(std::get<StringMetadata>(*metadata->Find({"l", "0"})).name, "l.0");
  EXPECT_EQ(std::get<ScalarMetadata>(*metadata->Find({"l", "1"})).dtype,
            DType::kFloat64);
  const auto& w = std::get<ArrayMetadata>(*metadata->Find({"w"}));
  EXPECT_EQ(w.dtype, DType::kInt16);
  EXPECT_FALSE(w.sharding);
  EXPECT_FALSE(w.storage->write_shape);
}

TEST(Metadata, NeedsItsFile) {
  const ScratchDirectory scratch;
  const auto metadata = MakeHandler()->Metadata(scratch.path());
  EXPECT_EQ(metadata.status().code(), StatusCode::kNotFound);
  EXPECT_EQ(metadata.status().message(),
            "Metadata file (named _METADATA) does not exist at " +
                scratch.path() + ".");
}

TEST(Metadata, AnArrayThatIsMissingIsAnError) {
  const ScratchDirectory scratch;
  ASSERT_TRUE(SaveTree(scratch.path(), Tree::Dict({{"w", Iota({2})}}),
                       {.use_ocdbt = false})
                  .ok());
  std::filesystem::remove_all(scratch / "w");
  EXPECT_EQ(MakeHandler()->Metadata(scratch.path()).status().code(),
            StatusCode::kDataLoss);
  std::filesystem::remove(scratch / "_HOLDFAST_DIGESTS");
  EXPECT_EQ(MakeHandler()->Metadata(scratch.path()).status().code(),
            StatusCode::kNotFound);
  const auto restored = MakeHandler()->Restore(scratch.path());
  EXPECT_EQ(restored.status().message(),
            "Individual parameter subdirectory not found at path: " +
                (scratch / "w") + ".");
}

}  // namespace
}  // namespace holdfast
