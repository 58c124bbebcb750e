// Restores that change the tree, and restores of older items.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <any>
#include <filesystem>

#include "orbax/pytree/pytree_test_util.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TransformTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(
        SaveTree(scratch_.path(),
                 Tree::Dict({{"params", Tree::Dict({{"dense0", Iota({4})},
                                                    {"dense1", Iota({2})}})},
                             {"step", Tree(7)}}))
            .ok());
  }

  Result<Tree> Restore(PyTreeRestoreArgs args) {
    return MakeHandler()->Restore(scratch_.path(), args);
  }

  const ScratchDirectory scratch_;
};

TEST_F(TransformTest, RenamesAndCasts) {
  PyTreeRestoreArgs args = RestoreOf(
      Tree::Dict({{"count", Tree(0)},
                  {"net", Tree::Dict({{"0", Tree(0)}, {"1", Tree(0)}})}}),
      RestoreArgsMap{{"count", RestoreArgs{}},
                     {"net.0", RestoreArgs{.dtype = DType::kInt8}},
                     {"net.1", ArrayRestoreArgs{.sharding = Rows(2)}}});
  args.transforms = Transforms{
      {R"(net/(\d))", Transform{.original_key = R"(params/dense\1)"}},
      {"count", Transform{.original_key = "step",
                          .value_fn = [](const Tree& step) -> Result<Tree> {
                            return Tree(step.scalar().As<int64_t>() + 1);
                          }}}};
  const auto restored = Restore(args);
  ASSERT_TRUE(restored.ok()) << restored.status().ToString();
  EXPECT_EQ(*restored->Find("count"), Tree(8));
  EXPECT_EQ(*restored->FindPath({"net", "0"}),
            Tree(CastTo(Iota({4}), DType::kInt8)));
  EXPECT_EQ(restored->FindPath({"net", "1"})->shards().size(), 2u);
}

TEST_F(TransformTest, WhatNoRuleNeedsIsNotRead) {
  // dense1 is dropped, so its type does not matter.
  PyTreeRestoreArgs args =
      RestoreOf(Tree::Dict({{"a", Tree(0)}, {"step", Tree(1)}}),
                RestoreArgsMap{{"a", RestoreArgs{}}, {"step", RestoreArgs{}}});
  args.transforms =
      Transforms{{"a", Transform{.original_key = "params/dense0"}}};
  const auto restored = Restore(args);
  ASSERT_TRUE(restored.ok()) << restored.status().ToString();
  EXPECT_EQ(*restored, Tree::Dict({{"a", Tree(Iota({4}))}, {"step", Tree(7)}}));
  args.transforms_default_to_original = false;
  EXPECT_EQ(*Restore(args)->Find("step"), Tree(1));
}

TEST_F(TransformTest, RefusesInOrbaxsWords) {
  PyTreeRestoreArgs args;
  args.transforms = Transforms();
  EXPECT_EQ(Restore(args).status().message(),
            "If providing `transforms`, must provide `item` matching structure "
            "of expected result.");
  args.item = Tree::Dict({{"step", Tree(0)}});
  args.restore_args = RestoreArgsMap{{"step", RestoreArgs{}}};
  args.legacy_transform_fn =
      [](const Tree*, const Tree& structure,
         const Tree& infos) -> Result<LegacyTransformed> {
    return LegacyTransformed{structure, infos};
  };
  EXPECT_EQ(Restore(args).status().message(),
            "Cannot provide both `transforms` and `legacy_transform_fn`.");
}

TEST_F(TransformTest, ALegacyFunctionMovesLeaves) {
  PyTreeRestoreArgs args;
  args.restore_args =
      RestoreArgsMap{{"w", RestoreArgs{.dtype = DType::kInt32}}};
  args.legacy_transform_fn =
      [](const Tree* item, const Tree& structure,
         const Tree& infos) -> Result<LegacyTransformed> {
    EXPECT_EQ(item, nullptr);
    const auto move = [](const Tree& tree) {
      return Tree::Dict({{"w", *tree.FindPath({"params", "dense0"})}});
    };
    const Tree entry = *structure.FindPath({"params", "dense0"});
    EXPECT_EQ(std::any_cast<ValueMetadataEntry>(entry.object()).value_type,
              "np.ndarray");
    return LegacyTransformed{move(structure), move(infos)};
  };
  const auto restored = Restore(args);
  ASSERT_TRUE(restored.ok()) << restored.status().ToString();
  EXPECT_EQ(*restored,
            Tree::Dict({{"w", Tree(CastTo(Iota({4}), DType::kInt32))}}));
}

TEST_F(TransformTest, WithoutMetadataTheItemIsTheStructure) {
  std::filesystem::remove(scratch_ / "_METADATA");
  std::filesystem::remove(scratch_ / "_HOLDFAST_DIGESTS");
  const auto none = Restore({});
  EXPECT_EQ(none.status().code(), StatusCode::kNotFound);
  EXPECT_EQ(none.status().message(),
            "No structure could be identified for the checkpoint at " +
                scratch_.path() + ".");
  const auto restored = Restore(
      RestoreOf(Tree::Dict({{"params", Tree::Dict({{"dense0", Tree(0)}})}}),
                RestoreArgsMap{
                    {"params.dense0", ArrayRestoreArgs{.sharding = Rows(2)}}}));
  ASSERT_TRUE(restored.ok()) << restored.status().ToString();
  EXPECT_EQ(restored->FindPath({"params", "dense0"})->shards().size(), 2u);
}

TEST(DirectoryNames, AreTheStructureOfTheOldestFiles) {
  const ScratchDirectory scratch;
  ASSERT_TRUE(SaveTree(scratch.path(),
                       Tree::Dict({{"a", Tree::Dict({{"b", Iota({3})}})}}),
                       {.use_ocdbt = false})
                  .ok());
  std::filesystem::remove(scratch / "_METADATA");
  std::filesystem::remove(scratch / "_HOLDFAST_DIGESTS");
  const auto restored =
      MakeHandler({.use_ocdbt = false})->Restore(scratch.path());
  ASSERT_TRUE(restored.ok()) << restored.status().ToString();
  EXPECT_EQ(*restored,
            Tree::Dict({{"a", Tree::Dict({{"b", Tree(Iota({3}))}})}}));
}

// {"a": 5, "b": "PLACEHOLDER://b"} in flax's msgpack.
constexpr char kAggregate[] =
    "\x82\xa1"
    "a\x05\xa1"
    "b\xaf"
    "PLACEHOLDER://b";

class AggregateTest : public testing::Test {
 protected:
  void Save(const std::string& file) {
    ASSERT_TRUE(SaveTree(scratch_.path(),
                         Tree::Dict({{"a", Tree(1)}, {"b", Iota({3})}}))
                    .ok());
    std::filesystem::remove(scratch_ / "_HOLDFAST_DIGESTS");
    WriteTestFile(scratch_ / file,
                  std::string_view(kAggregate, sizeof kAggregate - 1));
  }

  const ScratchDirectory scratch_;
};

TEST_F(AggregateTest, ItsValuesGoFirst) {
  Save("checkpoint");
  const auto restored = MakeHandler()->Restore(
      scratch_.path(),
      RestoreOf(std::nullopt,
                RestoreArgsMap{{"a", RestoreArgs{.dtype = DType::kFloat32}}}));
  ASSERT_TRUE(restored.ok()) << restored.status().ToString();
  EXPECT_EQ(*restored->Find("a"),
            Tree(Scalar::Of<float>(DType::kFloat32, 5, true)));
  EXPECT_EQ(*restored->Find("b"), Tree(Iota({3})));
}

TEST_F(AggregateTest, IsTheStructureWhereNothingElseIs) {
  Save("old");
  std::filesystem::remove(scratch_ / "_METADATA");
  const auto handler = MakeHandler({.aggregate_filename = "old"});
  const auto restored = handler->Restore(scratch_.path());
  ASSERT_TRUE(restored.ok()) << restored.status().ToString();
  EXPECT_EQ(*restored, Tree::Dict({{"a", Tree(5)}, {"b", Tree(Iota({3}))}}));
  EXPECT_EQ(MakeHandler()->Restore(scratch_.path()).status().code(),
            StatusCode::kNotFound);
}

TEST_F(AggregateTest, DamageIsAnError) {
  Save("checkpoint");
  WriteTestFile(scratch_ / "checkpoint", "\x82\xa1");
  EXPECT_EQ(MakeHandler()->Restore(scratch_.path()).status().code(),
            StatusCode::kDataLoss);
}

}  // namespace
}  // namespace holdfast
