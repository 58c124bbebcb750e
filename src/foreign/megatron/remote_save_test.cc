// Megatron's zarr arrays in an object store. Shards that are complete chunks
// become objects, and shared chunks are refused.
#include <gtest/gtest.h>

#include <vector>

#include "foreign/megatron/corpus_test_util.h"
#include "holdfast/megatron/zarr.h"
#include "twins/mem_bucket.h"

namespace holdfast::megatron {
namespace {

constexpr char kRemoteDirectory[] = "mem://test/run/iter_0000001";

Array Counted(const Shape& shape) {
  Array array = *Array::Allocate(DType::kFloat32, shape);
  auto* values = reinterpret_cast<float*>(array.mutable_view().data);
  for (int64_t i = 0; i < ElementCount(shape); ++i) {
    values[i] = static_cast<float>(i) + 0.5F;
  }
  return array;
}

ShardedTensor HalfOf(const Array& whole, int64_t rank) {
  const RankOffset offset = {0, rank, 2};
  const Shape half = {whole.shape()[0] / 2, whole.shape()[1]};
  return *ShardedTensor::FromRankOffsets(
      "w", Subview(whole.view(), {{rank * half[0], 0}, half}), {&offset, 1});
}

TEST(RemoteMegatronSave, ShardsAreReadBack) {
  MemBucketForTest bucket;
  const Array whole = Counted({6, 5});
  const std::vector<ShardedTensor> shards = {HalfOf(whole, 0),
                                             HalfOf(whole, 1)};
  const auto saved =
      ZarrSaveShardedStrategy().Save(shards, kRemoteDirectory, nullptr, {});
  ASSERT_TRUE(saved.ok()) << saved.status().ToString();
  EXPECT_EQ(bucket.Content("run/iter_0000001/w/0.0").size(), 3u * 5 * 4);
  for (int64_t rank = 0; rank < 2; ++rank) {
    const std::vector<ShardedTensor> wanted = {shards[rank].WithoutData()};
    const auto loaded =
        ZarrLoadShardedStrategy().Load(wanted, kRemoteDirectory, {});
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    EXPECT_EQ(PackedBytes((*loaded)[0].array.view()),
              PackedBytes(shards[rank].data));
  }
}

TEST(RemoteMegatronSave, SharedChunksAreRefused) {
  MemBucketForTest bucket;
  const Array whole = Counted({4, 2});
  const RankOffset offset = {0, 0, 1};
  const std::vector<ShardedTensor> part = {*ShardedTensor::FromRankOffsetsFlat(
      "w", Subview(Counted({8}).view(), {{0}, {3}}), {4, 2}, {&offset, 1},
      {0, 3})};
  const auto saved =
      ZarrSaveShardedStrategy().Save(part, kRemoteDirectory, nullptr, {});
  EXPECT_EQ(saved.status().code(), StatusCode::kUnimplemented);
  EXPECT_NE(saved.status().message().find("holdfast cp"), std::string::npos)
      << saved.status().message();
}

}  // namespace
}  // namespace holdfast::megatron
