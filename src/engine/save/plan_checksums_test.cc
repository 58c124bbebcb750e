#include "engine/save/plan_checksums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/save/array_test_util.h"

namespace holdfast {
namespace {

using testing::Contains;
using testing::SizeIs;

Tree ShardedAtRow(const Array& part, int64_t row,
                  std::string sharding_json = "{}",
                  Shape write_shape = {2, 4}) {
  std::vector<ArrayShard> shards;
  if (row >= 0) shards.push_back({{row, 0}, part});
  return Tree::ShardedArray(
      part.dtype(), {4, 4}, std::move(shards),
      std::make_shared<const ArrayTraits>(
          ArrayTraits{std::move(sharding_json), "", std::move(write_shape)}));
}

PlanChecksums Of(Tree tree, SaveOptions options = {}) {
  options.chunk_bytes = 0;
  const auto plan =
      MakeSavePlan(tree, options, {.is_partial = true, .is_primary = false});
  EXPECT_TRUE(plan.ok()) << plan.status().ToString();
  return ChecksumsOf(*plan);
}

TEST(PlanChecksums, DoNotTellWhoPlanned) {
  const Array half = Zeros(DType::kFloat32, {2, 4});
  const Array values = Zeros(DType::kInt8, {3});
  const auto tree = [&](int64_t row) {
    return Tree::Dict({{"n", values}, {"w", ShardedAtRow(half, row)}});
  };
  const PlanChecksums first = Of(tree(0));
  EXPECT_EQ(Of(tree(2)), first);
  EXPECT_EQ(Of(tree(-1)), first);
  const Tree own = tree(0);
  const auto primary = MakeSavePlan(own, {.chunk_bytes = 0},
                                    {.is_partial = true, .is_primary = true});
  EXPECT_EQ(ChecksumsOf(*primary), first);
}

TEST(PlanChecksums, TellEverythingThatMustAgree) {
  const Array half = Zeros(DType::kFloat32, {2, 4});
  const Array quarter = Zeros(DType::kFloat32, {1, 4});
  const PlanChecksums base = Of(Tree::Dict({{"w", ShardedAtRow(half, 0)}}));
  const auto differs = [&](const PlanChecksums& other) {
    EXPECT_NE(other, base);
    EXPECT_THAT(SuspectLeaves({"w"}, base, other, 8), SizeIs(1));
  };
  differs(
      Of(Tree::Dict({{"w", ShardedAtRow(Zeros(DType::kInt32, {2, 4}), 0)}})));
  differs(Of(Tree::Dict({{"w", ShardedAtRow(half, 0, "{\"a\": 1}")}})));
  differs(Of(Tree::Dict({{"w", ShardedAtRow(quarter, 0, "{}", {1, 4})}})));
  differs(Of(Tree::Dict({{"w", ShardedAtRow(half, 0)}}), {.zarr_format = 3}));
  differs(Of(Tree::Dict({{"w", Tree(1)}})));
  EXPECT_NE(Of(Tree::Dict({{"v", Tree(1)}, {"w", ShardedAtRow(half, 0)}})),
            base);
}

TEST(PlanChecksums, SuspectsAreFewAmongMany) {
  std::vector<std::string> names;
  Tree a = Tree::Dict(), b = Tree::Dict();
  for (int i = 100; i < 1100; ++i) {
    names.push_back("leaf" + std::to_string(i));
    a.Add(names.back(), Tree(1));
    b.Add(names.back(), i == 500 ? Tree(2.5) : Tree(1));
  }
  const auto suspects = SuspectLeaves(names, Of(a), Of(b), 100);
  EXPECT_THAT(suspects, Contains("leaf500"));
  EXPECT_LT(suspects.size(), 20u);
  EXPECT_THAT(SuspectLeaves(names, Of(a), Of(b), 1), SizeIs(1));
}

}  // namespace
}  // namespace holdfast
