#include "engine/save/save_plan.h"

#include <gtest/gtest.h>

#include "engine/save/array_test_util.h"

namespace holdfast {
namespace {

TEST(SavePlan, ValuesAreNumberedInOrderOfNames) {
  SaveOptions options;
  options.chunk_bytes = 64;
  const Tree tree = Tree::Dict({{"b", Zeros(DType::kFloat32, {8, 8})},
                                {"a", Tree(1.5)},
                                {"none", Tree::None()},
                                {"text", "x"}});
  const auto plan = MakeSavePlan(tree, options);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  ASSERT_EQ(plan->arrays.size(), 2u);
  EXPECT_EQ(plan->arrays[0].name, "a");
  EXPECT_EQ(plan->arrays[0].first_value, 0u);
  EXPECT_EQ(plan->arrays[1].first_value, 2u);
  EXPECT_EQ(plan->arrays[1].layout->chunk_count, 4u);  // 2 rows of 32 bytes
  EXPECT_EQ(plan->value_count, 7u);
  EXPECT_EQ(plan->leaves.size(), 4u);
  EXPECT_EQ(plan->decoded_bytes, 8u + 256u);
}

TEST(SavePlan, BatchesCoverAllValuesAndBigChunksGoAlone) {
  std::vector<Tree> leaves;
  for (int i = 0; i < 500; ++i) leaves.push_back(Zeros(DType::kInt8, {256}));
  leaves.push_back(Zeros(DType::kFloat32, {1 << 16}));
  const auto plan = MakeSavePlan(Tree::List(std::move(leaves)), {});
  ASSERT_TRUE(plan.ok());
  uint64_t next = 0;
  bool big_is_alone = false;
  for (const PlannedBatch& batch : plan->batches) {
    ASSERT_EQ(batch.first, next);
    next = batch.last;
    EXPECT_LE(plan->arrays[batch.array].first_value, batch.first);
    if (batch.byte_count > kBatchBytesTarget) {
      EXPECT_EQ(batch.last - batch.first, 1u);
      big_is_alone = true;
    }
  }
  EXPECT_EQ(next, plan->value_count);
  EXPECT_TRUE(big_is_alone);
  EXPECT_LT(plan->batches.size(), 20u);
}

TEST(SavePlan, EqualArraysShareOneLayout) {
  const auto plan = MakeSavePlan(
      Tree::List({Zeros(DType::kInt8, {4}), Zeros(DType::kInt8, {4}),
                  Zeros(DType::kInt8, {5})}),
      {});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->arrays[0].layout, plan->arrays[1].layout);
  EXPECT_NE(plan->arrays[0].layout, plan->arrays[2].layout);
}

TEST(SavePlan, AChunkNeverExceedsItsDataFile) {
  SaveOptions options;
  options.chunk_bytes = 0;
  options.ocdbt_target_data_file_bytes = 1024;
  const auto plan =
      MakeSavePlan(Tree::List({Zeros(DType::kFloat32, {64, 64})}), options);
  ASSERT_TRUE(plan.ok());
  EXPECT_LE(plan->arrays[0].layout->array->chunk_bytes, 1024u);
  options.use_ocdbt = false;
  EXPECT_EQ(
      MakeSavePlan(Tree::List({Zeros(DType::kFloat32, {64, 64})}), options)
          ->arrays[0]
          .layout->chunk_count,
      1u);
}

Tree WithWriteShape(const Array& whole, const Shape& write_shape) {
  auto traits = std::make_shared<ArrayTraits>();
  traits->write_shape = write_shape;
  return Tree::JaxArray(whole, traits);
}

Shape ChunkOf(const Tree& leaf, const SaveOptions& options) {
  const auto plan = MakeSavePlan(Tree::Dict({{"w", leaf}}), options);
  EXPECT_TRUE(plan.ok()) << plan.status().ToString();
  return plan.ok() ? plan->arrays[0].layout->array->grid.chunk_shape : Shape();
}

// The expected shapes are those of Orbax 0.12.8 for (64, 64) float32.
TEST(SavePlan, ChunksStartFromTheWriteShape) {
  const Array whole = Zeros(DType::kFloat32, {64, 64});
  SaveOptions options;
  options.chunk_bytes = 0;
  EXPECT_EQ(ChunkOf(WithWriteShape(whole, {32, 16}), options), (Shape{32, 16}));
  EXPECT_EQ(ChunkOf(Tree(whole), options), (Shape{64, 64}));
  options.save_args["w"].chunk_byte_size = 2048;
  EXPECT_EQ(ChunkOf(Tree(whole), options), (Shape{16, 32}));
  EXPECT_EQ(ChunkOf(WithWriteShape(whole, {64, 16}), options), (Shape{64, 8}));
  options.save_args["w"] = {.chunk_byte_size = 4096, .shard_axes = {0}};
  EXPECT_EQ(ChunkOf(Tree(whole), options), (Shape{1, 64}));
  options.save_args["w"] = {.shard_axes = {1}};
  EXPECT_EQ(ChunkOf(Tree(whole), options), (Shape{64, 1}));
  // A cast halves the elements' bytes.
  options.save_args["w"] = {.dtype = DType::kBfloat16, .chunk_byte_size = 2048};
  EXPECT_EQ(ChunkOf(Tree(whole), options), (Shape{32, 32}));
}

TEST(SavePlan, ArgumentsOfALeafWinOverHoldfastsOwnChunks) {
  const Array whole = Zeros(DType::kFloat32, {64, 64});
  SaveOptions options;
  options.chunk_bytes = 1024;
  EXPECT_EQ(ChunkOf(Tree(whole), options), (Shape{4, 64}));
  EXPECT_EQ(ChunkOf(WithWriteShape(whole, {64, 16}), options), (Shape{16, 16}));
  options.save_args["w"].chunk_byte_size = 2048;
  EXPECT_EQ(ChunkOf(Tree(whole), options), (Shape{16, 32}));
  options.save_args["w"] = {.shard_axes = {1}};
  EXPECT_EQ(ChunkOf(Tree(whole), options), (Shape{64, 1}));
}

TEST(SavePlan, RefusesArgumentsThatCannotBe) {
  const auto refusal = [](const Tree& leaf, const SaveArgs& args,
                          const char* name = "w") {
    SaveOptions options;
    options.save_args[name] = args;
    const Status status =
        MakeSavePlan(Tree::Dict({{"w", leaf}}), options).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  const Array whole = Zeros(DType::kFloat32, {4, 4});
  EXPECT_EQ(refusal(whole, {.chunk_byte_size = 1}),
            "target_byte_size=1 must be >= 4");
  EXPECT_EQ(refusal(whole, {.shard_axes = {5}}),
            "All shard_axes=(5,) must be non-negative and less than rank=2.");
  EXPECT_EQ(refusal(whole, {}, "v"),
            "save_args: the tree has no leaf named \"v\"");
  EXPECT_EQ(refusal(whole, {.dtype = DType::kUint4}),
            "Error parsing object member \"dtype\": Unsupported data type: "
            "\"uint4\"");
  EXPECT_EQ(refusal(WithWriteShape(whole, {8, 4}), {}),
            "leaf w: write_shape=(8, 4) is not a part of the shape (4, 4)");
  EXPECT_EQ(refusal(WithWriteShape(whole, {4}), {}),
            "leaf w: write_shape=(4,) is not a part of the shape (4, 4)");
}

TEST(SavePlan, ShardsMustCoverTheArrayOnce) {
  const Array half = Zeros(DType::kFloat32, {2, 4});
  const auto save = [&](std::vector<ArrayShard> shards) {
    const auto plan = MakeSavePlan(
        Tree::Dict({{"w", Tree::ShardedArray({4, 4}, std::move(shards), {})}}),
        {});
    return std::string(plan.status().message());
  };
  EXPECT_EQ(save({{{0, 0}, half}, {{2, 0}, half}}), "");
  EXPECT_EQ(save({{{0, 0}, half}}),
            "leaf w: the shards leave out 8 elements of the shape (4, 4)");
  EXPECT_EQ(save({{{0, 0}, half}, {{1, 0}, half}}),
            "leaf w: shards [0:2, 0:4] and [1:3, 0:4] overlap");
  EXPECT_EQ(save({{{0, 0}, half}, {{3, 0}, half}}),
            "leaf w: shard [3:5, 0:4] is not inside the shape (4, 4)");
  EXPECT_EQ(save({{{0, 0}, half}, {{2, 0}, Zeros(DType::kInt8, {2, 4})}}),
            "leaf w: shards of two dtypes (got int8, want float32)");
  EXPECT_EQ(save({{{0}, half}, {{2, 0}, half}}),
            "leaf w: a shard at (0,) of shape (2, 4) in an array of shape "
            "(4, 4)");
}

// The budget counts what a chunk needs beyond its own bytes.
TEST(SavePlan, CastAndGatheredChunksHoldScratch) {
  const Array whole = Zeros(DType::kFloat32, {64, 64});
  const Array half = Zeros(DType::kFloat32, {32, 64});
  SaveOptions options;
  options.chunk_bytes = 0;
  const auto held = [&](const Tree& leaf) {
    const auto plan = MakeSavePlan(Tree::Dict({{"w", leaf}}), options);
    EXPECT_TRUE(plan.ok()) << plan.status().ToString();
    uint64_t held_bytes = 0, byte_count = 0;
    for (const PlannedBatch& batch : plan->batches) {
      held_bytes += batch.held_bytes;
      byte_count += batch.byte_count;
    }
    return held_bytes - byte_count;
  };
  const auto halves = [&](const Shape& write_shape) {
    auto traits = std::make_shared<ArrayTraits>();
    traits->write_shape = write_shape;
    return Tree::ShardedArray({64, 64}, {{{0, 0}, half}, {{32, 0}, half}},
                              traits);
  };
  EXPECT_EQ(held(whole), 0u);
  EXPECT_EQ(held(halves({32, 64})), 0u);
  EXPECT_EQ(held(halves({16, 16})), 64u * 64 * 4) << "packed";
  EXPECT_EQ(held(halves({64, 64})), 64u * 64 * 4);
  options.compression = Compression::kNone;
  EXPECT_EQ(held(halves({16, 16})), 0u) << "packed where they are written";
  options.save_args["w"].dtype = DType::kBfloat16;
  EXPECT_EQ(held(whole), 64u * 64 * 2);
  options.compression = Compression::kZstd;
  EXPECT_EQ(held(whole), 64u * 64 * 2);
}

TEST(SavePlan, RefusesCollidingNamesAndUnsafeDirectories) {
  const Tree colliding =
      Tree::Dict({{"a.b", Tree(1)}, {"a", Tree::Dict({{"b", Tree(2)}})}});
  const Status collision = MakeSavePlan(colliding, {}).status();
  EXPECT_EQ(collision.code(), StatusCode::kInvalidArgument);
  SaveOptions directories;
  directories.use_ocdbt = false;
  for (const char* key : {"..", "a/../b", "/etc"}) {
    EXPECT_EQ(
        MakeSavePlan(Tree::Dict({{key, Tree(1)}}), directories).status().code(),
        StatusCode::kInvalidArgument)
        << key;
  }
}

TEST(SavePlan, WriteAndReadChunkShapesNeedZarr3) {
  SaveOptions options;
  options.zarr_format = 3;
  options.save_args["w"].write_chunk_shape = Shape{4, 8};
  options.save_args["w"].read_chunk_shape = Shape{2, 8};
  const Tree tree = Tree::Dict({{"w", Zeros(DType::kFloat32, {8, 8})}});
  const auto plan = MakeSavePlan(tree, options);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  const SaveLayout& layout = *plan->arrays[0].layout;
  EXPECT_EQ(layout.chunk_count, 2u);
  EXPECT_EQ(layout.array->format.metadata.chunk_shape, (Shape{4, 8}));
  EXPECT_EQ(layout.array->format.metadata.sharding->chunk_shape, (Shape{2, 8}));
  options.save_args["w"].read_chunk_shape = Shape{3, 8};
  EXPECT_EQ(MakeSavePlan(tree, options).status().message(),
            "read_chunk_shape=(3, 8) is not a divisor of write_chunk_shape=(4, "
            "8)");
  options.zarr_format = 2;
  EXPECT_EQ(MakeSavePlan(tree, options).status().message(),
            "Zarr3 is not enabled when `write_chunk_shape`, `read_chunk_shape` "
            "or `chunk_byte_size` is specified.");
}

}  // namespace
}  // namespace holdfast
