// Each request that RestoreArgs can express, with the resulting values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/checkpoint.h"
#include "orbax/pytree/base_restore.h"
#include "orbax/pytree/pytree_test_util.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RestoreArgsTest : public testing::Test {
 protected:
  void SetUp() override {
    const Tree item = Tree::Dict({
        {"half", Tree(2.75)},
        {"j", Tree::JaxArray(Iota({4, 2}))},
        {"n", Tree(-3)},
        {"name", Tree("model")},
        {"w", Tree(Iota({2, 3}))},
    });
    ASSERT_TRUE(SaveTree(scratch_.path(), item).ok());
  }

  Result<Tree> Restore(std::string name, AnyRestoreArgs args) {
    auto restored = MakeHandler()->Restore(
        scratch_.path(), RestoreOf(std::nullopt, {{{name, std::move(args)}}}));
    if (!restored.ok()) return restored;
    return *restored->Find(name);
  }

  const ScratchDirectory scratch_;
};

TEST_F(RestoreArgsTest, CastsAsItReads) {
  const auto w = Restore("w", RestoreArgs{.dtype = DType::kInt16});
  ASSERT_TRUE(w.ok()) << w.status().ToString();
  EXPECT_EQ(*w, Tree(CastTo(Iota({2, 3}), DType::kInt16)));
  const auto half = Restore("half", RestoreArgs{.dtype = DType::kInt32});
  ASSERT_TRUE(half.ok());
  EXPECT_EQ(*half, Tree(2));
}

TEST_F(RestoreArgsTest, MakesTheTypeThatIsAskedFor) {
  EXPECT_EQ(*Restore("half", RestoreArgs{RestoreType::kInt}), Tree(2));
  EXPECT_EQ(*Restore("n", RestoreArgs{RestoreType::kFloat}), Tree(-3.0));
  EXPECT_EQ(*Restore("n", RestoreArgs{RestoreType::kBool}), Tree(true));
  EXPECT_EQ(*Restore("n", RestoreArgs{RestoreType::kNumpy}),
            Tree(ArrayOf<int64_t>(DType::kInt64, {}, {-3})));
  EXPECT_EQ(*Restore("j", RestoreArgs{RestoreType::kNumpy}),
            Tree(Iota({4, 2})));
  EXPECT_EQ(*Restore("name", RestoreArgs{RestoreType::kString}), Tree("model"));
}

TEST_F(RestoreArgsTest, AnArrayIsNoScalarAndNoString) {
  const auto scalar = Restore("w", RestoreArgs{RestoreType::kInt});
  EXPECT_EQ(scalar.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(scalar.status().message(), "Restored result is not a scalar.");
  const auto text = Restore("w", RestoreArgs{RestoreType::kString});
  EXPECT_EQ(text.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(text.status().message(),
            "NOT_FOUND: Error reading local file \"" + scratch_.path() +
                "/_strings.json\": JSON Pointer \"/w\" refers to non-existent "
                "object member");
}

TEST_F(RestoreArgsTest, WithoutAShardingTakesTheRecordedOne) {
  const auto j = Restore("j", RestoreArgs{});
  ASSERT_TRUE(j.ok()) << j.status().ToString();
  EXPECT_EQ(*j, Tree::JaxArray(Iota({4, 2})));
  const auto none = Restore("w", RestoreArgs{RestoreType::kJaxArray});
  EXPECT_EQ(none.status().code(), StatusCode::kInvalidArgument);
}

TEST_F(RestoreArgsTest, AShardingCutsTheArray) {
  const auto j = Restore("j", ArrayRestoreArgs{.sharding = Rows(2)});
  ASSERT_TRUE(j.ok()) << j.status().ToString();
  ASSERT_EQ(j->shards().size(), 2u);
  EXPECT_EQ(j->shards()[0].origin, Shape({0, 0}));
  EXPECT_THAT(Elements(j->shards()[0].array), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(j->shards()[1].origin, Shape({2, 0}));
  EXPECT_THAT(Elements(j->shards()[1].array), ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(j->sharding_json(), ShardingToJson(Rows(2)));
  EXPECT_EQ(j->array_traits().write_shape, Shape({2, 2}));
}

TEST_F(RestoreArgsTest, MeshAndAxesAreASharding) {
  ArrayRestoreArgs args;
  args.mesh = Mesh{{"x", "y"}, {2, 2}, {}, {}};
  args.mesh_axes = PartitionSpec{{}, {"x"}};
  args.sharding = Rows(4);  // the mesh takes precedence
  const auto j = Restore("j", args);
  ASSERT_TRUE(j.ok()) << j.status().ToString();
  // There are two distinct boxes, each on two devices. Each box is read once.
  ASSERT_EQ(j->shards().size(), 2u);
  EXPECT_THAT(Elements(j->shards()[1].array), ElementsAre(1, 3, 5, 7));
}

TEST_F(RestoreArgsTest, AShapeThatDoesNotFitIsRefused) {
  ArrayRestoreArgs args{.sharding = SingleDeviceSharding{}};
  args.global_shape = Shape{5, 3};
  EXPECT_EQ(
      Restore("j", args).status().message(),
      "Requested shape: (5, 3) is not compatible with the stored shape: (4, "
      "2). Truncating/padding is disabled. To enable it, set `strict=False` in "
      "`ArrayRestoreArgs` for any array in v0 API or "
      "`enable_padding_and_truncation=True` in `ArrayOptions.Loading` in v1 "
      "API.");
  args.strict = false;
  args.global_shape = Shape{4, 2, 1};
  EXPECT_EQ(Restore("j", args).status().message(),
            "Cannot intersect index domain { [0, 4*), [0, 2*) } with index "
            "domain { [0, 4), [0, 2), [0, 1) }: Ranks do not match");
  args.shape = Shape{4, 2};
  EXPECT_EQ(Restore("j", args).status().message(),
            "If `shape` and `global_shape` are both provided, they must "
            "match.");
}

TEST_F(RestoreArgsTest, PadsAndTruncatesWhereItMay) {
  ArrayRestoreArgs args{.sharding = Rows(2), .strict = false};
  args.shape = Shape{6, 1};
  const auto j = Restore("j", args);
  ASSERT_TRUE(j.ok()) << j.status().ToString();
  EXPECT_EQ(j->array_shape(), Shape({6, 1}));
  EXPECT_THAT(Elements(j->shards()[0].array), ElementsAre(0, 2, 4));
  EXPECT_THAT(Elements(j->shards()[1].array), ElementsAre(6, 0, 0));
}

TEST_F(RestoreArgsTest, StrictArgumentsTakeShapeAndDTypeFromTheItem) {
  const auto restore = [&](Shape shape, bool strict) {
    PyTreeRestoreArgs args = RestoreOf(
        Tree::Dict({{"j", CastTo(Iota(std::move(shape)), DType::kFloat16)}}),
        {{{"j", ArrayRestoreArgs{.sharding = SingleDeviceSharding{},
                                 .strict = strict}}}});
    args.partial_restore = true;
    return MakeHandler()->Restore(scratch_.path(), args);
  };
  const auto same = restore({4, 2}, true);
  ASSERT_TRUE(same.ok()) << same.status().ToString();
  EXPECT_EQ(same->Find("j")->array_dtype(), DType::kFloat16);
  EXPECT_THAT(std::string(restore({4, 3}, true).status().message()),
              HasSubstr("Requested shape: (4, 3) is not compatible"));
  const auto stored = restore({4, 3}, false);
  ASSERT_TRUE(stored.ok());
  EXPECT_EQ(stored->Find("j")->array_dtype(), DType::kFloat32);
  EXPECT_EQ(stored->Find("j")->array_shape(), Shape({4, 2}));
}

TEST_F(RestoreArgsTest, ArgumentsOfNoLeafAreRefused) {
  const auto restored = MakeHandler()->Restore(
      scratch_.path(), RestoreOf(std::nullopt, {{{"ww", RestoreArgs{}}}}));
  EXPECT_EQ(restored.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(restored.status().message(),
            "restore_args: no parameter is named \"ww\"");
}

// A box is read from one of 64 chunks.
TEST(ReadBoxes, OnlyNeededBytesAreRead) {
  const ScratchDirectory scratch;
  PyTreeSaveArgs save{.item = Tree::Dict({{"w", Iota({64, 1024})}})};
  save.save_args["w"].chunk_byte_size = 4096;
  ASSERT_TRUE(
      MakeHandler({.use_compression = false})->Save(scratch.path(), save).ok());
  const auto settings = MakePyTreeSettings({});
  ASSERT_TRUE(settings.ok());
  const auto source =
      ItemSource::Open(scratch.path(), MissingChunks::kAsRecorded);
  ASSERT_TRUE(source.ok());
  ReadContext context =
      MakeReadContext(*settings, scratch.path(), source->get());
  Stats stats;
  context.stats = &stats;
  LeafRequest request;
  request.path = {KeyElement{"w"}};
  request.info.name = "w";
  request.info.parent_dir = scratch.path();
  request.entry.value_type = "np.ndarray";
  ArrayRestoreArgs args{.sharding = SingleDeviceSharding{}, .strict = false};
  args.global_shape = (*source)->leaf(0).chunk_shape;
  ASSERT_EQ(ElementCount(*args.global_shape), 1024);
  request.args = args;
  const auto values = ReadLeaves(context, {request});
  ASSERT_TRUE(values.ok()) << values.status().ToString();
  EXPECT_EQ((*values)[0].array_shape(), *args.global_shape);
  EXPECT_EQ(stats.stored_bytes, 4096u);
}

}  // namespace
}  // namespace holdfast
