#include "checkpoint/save_plan.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

Array Zeros(DType dtype, Shape shape) {
  Array array = *Array::Allocate(dtype, std::move(shape));
  std::memset(array.mutable_view().data, 0, array.byte_count());
  return array;
}

TEST(SavePlan, ValuesAreNumberedInOrderOfNames) {
  SaveOptions options;
  options.chunk_bytes_target = 64;
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
  options.chunk_bytes_target = 0;
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

}  // namespace
}  // namespace holdfast
