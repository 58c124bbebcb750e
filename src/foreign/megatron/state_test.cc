#include "holdfast/megatron/state.h"

#include <gtest/gtest.h>

#include "foreign/megatron/corpus_test_util.h"

namespace holdfast::megatron {
namespace {

Array Floats(const Shape& shape) {
  std::vector<float> values;
  for (int64_t i = 0; i < ElementCount(shape); ++i) {
    values.push_back(static_cast<float>(i));
  }
  return Array::FromBytes(DType::kFloat32, shape, values.data());
}

ShardedState Value(int64_t value) { return {Tree(value)}; }

std::string PathsOf(const ShardedState& state) {
  std::string text;
  for (const StateLeaf& leaf : FlattenState(state)) {
    text += StatePathToString(leaf.path) + ";";
  }
  return text;
}

// Returns {"model": {"w": shard}, "opt": [1, shard, {}], "step": 7}.
ShardedState NestedState(const ShardedTensor& shard) {
  return {StateDict{
      {"model", {StateDict{{"w", {shard}}}}},
      {"opt", {StateList{Value(1), {shard}, {StateDict{}}}}},
      {"step", Value(7)},
  }};
}

TEST(State, SplitsShardsFromValuesAndMergesThemBack) {
  const Array data = Floats({2});
  const auto shard = *ShardedTensor::FromRankOffsets("w", data.view(), {});
  const StateSplit split = SplitState(NestedState(shard), IsSharded);
  EXPECT_EQ(PathsOf(split.matching), "model.w;opt.1;");
  EXPECT_EQ(PathsOf(split.rest), "opt.0;step;");
  const auto merged = MergeStates(split.rest, split.matching);
  ASSERT_TRUE(merged.ok()) << merged.status().ToString();
  // Dicts keep the order of the rest. Lists get their elements back at their
  // indices.
  EXPECT_EQ(PathsOf(*merged), "opt.0;opt.1;step;model.w;");
}

TEST(State, RefusesToMergeWhatIsThereTwice) {
  const ShardedState a = {StateDict{{"k", {StateList{Value(1)}}}}};
  const ShardedState b = {StateDict{{"k", {StateList{Value(1), Value(2)}}}}};
  EXPECT_EQ(MergeStates(a, b).status().message(),
            "Cannot merge two lists with different lengths (1 and 2, "
            "encountered at level ('k',))");
  const auto twice = MergeStates(a, a);
  EXPECT_NE(twice.status().message().find(
                "Duplicate non-dict and non-list values encountered"),
            std::string::npos);
}

// As swiglu's fc1: two halves under one key, each sharded over the ranks.
TEST(State, AFactorysTensorIsStoredCutAndLoadedWhole) {
  const Array ranks_data[] = {Floats({4, 3}), Floats({4, 3})};
  std::vector<ShardedState> states;
  std::vector<RankState> ranks;
  for (int64_t rank = 0; rank < 2; ++rank) {
    auto factory =
        MakeSplitFactory("fc1", ranks_data[rank].view(), 0, 2, rank, 2, {});
    ASSERT_TRUE(factory.ok());
    states.push_back({StateDict{{"fc1", {*std::move(factory)}}}});
    ranks.push_back(*RankStateOf(states.back()));
  }
  ASSERT_EQ(ranks[1].tensors.size(), 2u);
  EXPECT_EQ(ranks[1].tensors[0].global_offset, (Shape{2, 0}));
  EXPECT_EQ(ranks[1].tensors[1].global_offset, (Shape{6, 0}));
  EXPECT_EQ(ranks[1].tensors[0].global_shape, (Shape{8, 3}));
  ScratchDirectory scratch;
  const auto saved = SaveCheckpoint(ranks, "x", scratch.path());
  ASSERT_TRUE(saved.ok()) << saved.status().ToString();
  const auto loaded = LoadCheckpoint(ranks, scratch.path());
  // The load ignores common.pt.
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  ASSERT_TRUE((*loaded)[1].status.ok()) << (*loaded)[1].status.ToString();
  StateList parts;
  for (const auto& tensor : (*loaded)[1].tensors) {
    parts.push_back({tensor->array});
  }
  const auto folded =
      ApplyFactoryMerges(states[1], {StateDict{{"fc1", {std::move(parts)}}}});
  ASSERT_TRUE(folded.ok()) << folded.status().ToString();
  const auto leaves = FlattenState(*folded);
  ASSERT_EQ(leaves.size(), 1u);
  EXPECT_EQ(PackedBytes(leaves[0].leaf->As<Array>()->view()),
            PackedBytes(ranks_data[1].view()));
}

TEST(State, EmptyFlattenedRangesAreNoRequests) {
  const Array none = Floats({0});
  const auto shard = *ShardedTensor::FromRankOffsetsFlat("w", none.view(), {4},
                                                         {}, FlatRange{2, 2});
  const auto rank = RankStateOf({StateList{{shard}, Value(3)}});
  ASSERT_TRUE(rank.ok());
  EXPECT_TRUE(rank->tensors.empty());
}

TEST(Strategies, AreFoundByBackEndAndVersion) {
  const auto found = GetDefaultStrategy(StrategyAction::kLoadSharded,
                                        std::string("zarr"), int64_t{1});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ((*found)->ToString(), "TensorStoreLoadShardedStrategy(zarr, 1)");
  const auto text = [](const ConfigValue& version) {
    return GetDefaultStrategy(StrategyAction::kSaveSharded, std::string("zarr"),
                              version)
        .status();
  };
  EXPECT_EQ(MegatronErrorCode(text(int64_t{2})), "UNKNOWN_STRATEGY");
  EXPECT_NE(text(std::string("1")).message().find("'zarr', '1')"),
            std::string::npos);
  RegisterDefaultStrategy(StrategyAction::kSaveSharded, "test", 3,
                          std::make_shared<ZarrSaveShardedStrategy>("test", 3));
  EXPECT_TRUE(GetDefaultStrategy(StrategyAction::kSaveSharded,
                                 std::string("test"), int64_t{3})
                  .ok());
}

TEST(DTypes, BothTablesAreInverse) {
  EXPECT_EQ(DTypeTable().size(), 12u);
  for (const auto& [dtype, name] : DTypeTable()) {
    EXPECT_EQ(*TorchToNumpyDType(dtype), name);
    EXPECT_EQ(*NumpyToTorchDType(name), dtype);
  }
  EXPECT_EQ(ErrorOf(TorchToNumpyDType(DType::kUint16).status())->text,
            "torch.uint16");
}

TEST(Load, IntoTheCallersBuffers) {
  const Array data = Floats({4, 3});
  const auto tensor = ShardedTensor::FromRankOffsets("w", data.view(), {});
  ScratchDirectory scratch;
  const RankState rank = {{*tensor}, {}};
  ASSERT_TRUE(SaveCheckpoint({&rank, 1}, "x", scratch.path()).ok());
  // The target is a part of the columns of a wider matrix.
  std::vector<float> memory(4 * 5, -1);
  ArrayView target = {
      DType::kFloat32, reinterpret_cast<char*>(memory.data()), {4, 3}, {20, 4}};
  const auto loaded = LoadFromArray(*tensor, scratch.path(), {}, target);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(PackedBytes(target), PackedBytes(data.view()));
  EXPECT_EQ(memory[3], -1);
  target.dtype = DType::kInt32;
  EXPECT_EQ(MegatronErrorCode(
                LoadFromArray(*tensor, scratch.path(), {}, target).status()),
            "DTYPE_MISMATCH");
}

}  // namespace
}  // namespace holdfast::megatron
