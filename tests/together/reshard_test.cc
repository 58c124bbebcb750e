// The cost of a restore on another mesh: the bytes that are read, counted by
// the store and by the system, compared with the bytes that are needed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "checkpoint/test_trees.h"
#include "ground/tensor/box.h"
#include "ground/tensor/copy.h"
#include "holdfast/read_together.h"
#include "holdfast/sharding.h"
#include "twins/local_ranks.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

const Shape kShape = {1024, 8, 256};
constexpr uint64_t kArrayBytes = uint64_t{1024} * 8 * 256 * 4;

struct Layout {
  const char* name;
  int zarr_format;
  bool use_ocdbt;
  Compression compression;
  bool is_sharded;  // sub-chunks in one stored object
};

std::vector<DeviceShard> Shards(int64_t rows, int64_t columns) {
  const NamedSharding sharding{
      {.axis_names = {"data", "model"}, .shape = {rows, columns}},
      {{"data"}, {"model"}}};
  return *ShardBoxes(sharding, kShape);
}

// Returns the number of bytes that this process has read from files so far, or
// 0 if unknown.
uint64_t SystemBytesRead() {
  std::ifstream io("/proc/self/io");
  std::string name;
  uint64_t value = 0;
  while (io >> name >> value) {
    if (name == "rchar:") return value;
  }
  return 0;
}

class Reshard : public testing::TestWithParam<Layout> {
 protected:
  // Saves on 8 devices, with 128 rows each, in eight sub-chunks.
  void SetUp() override {
    const DeviceShard first = Shards(8, 1)[0];
    ASSERT_EQ(first.shape, (Shape{128, 8, 256}));
    SaveOptions options;
    options.sync = false;
    options.zarr_format = GetParam().zarr_format;
    options.use_ocdbt = GetParam().use_ocdbt;
    options.compression = GetParam().compression;
    SaveArgs& args = options.save_args["w"];
    if (GetParam().is_sharded) {
      args.write_chunk_shape = first.shape;
      args.read_chunk_shape = Shape{128, 1, 256};
    } else {
      args.chunk_byte_size = kArrayBytes / 64;
      args.shard_axes = {1};
    }
    ArrayTraits traits;
    traits.write_shape = first.shape;
    const auto saved = Save(
        path_,
        Tree::Dict({{"w", Tree::JaxArray(whole_, std::make_shared<ArrayTraits>(
                                                     std::move(traits)))}}),
        options);
    ASSERT_TRUE(saved.ok()) << saved.status().ToString();
    auto opened = Open(path_);
    ASSERT_TRUE(opened.ok());
    checkpoint_ = *std::move(opened);
    const LeafInfo& leaf = checkpoint_->leaves()[0];
    ASSERT_EQ(leaf.chunk_shape, (Shape{128, 1, 256}));
  }

  bool IsPart(const Array& array, const DeviceShard& shard) const {
    Array expected = *Array::Allocate(DType::kFloat32, shard.shape);
    CopyStrided(Subview(whole_.view(), {shard.origin, shard.shape}),
                expected.mutable_view());
    return Tree(array) == Tree(expected);
  }

  const Array whole_ = RandomArray(DType::kFloat32, kShape, 9);
  const ScratchDirectory scratch_;
  const std::string path_ = scratch_ / "checkpoint";
  std::unique_ptr<Checkpoint> checkpoint_;
};

TEST_P(Reshard, ADeviceReadsWhatItNeeds) {
  for (const auto& [rows, columns] :
       {std::pair{1, 8}, {2, 4}, {8, 1}, {4, 2}}) {
    for (const DeviceShard& shard : Shards(rows, columns)) {
      Array array = *Array::Allocate(DType::kFloat32, shard.shape);
      const uint64_t before = SystemBytesRead();
      const auto stats =
          checkpoint_->ReadInto({{0, shard.origin, array.mutable_view()}});
      const uint64_t system_bytes = SystemBytesRead() - before;
      ASSERT_TRUE(stats.ok()) << stats.status().ToString();
      EXPECT_GE(stats->stored_bytes, kArrayBytes / 8);
      EXPECT_LE(stats->stored_bytes, kArrayBytes / 8 * 1.05);
      if (before > 0) {
        // A part of a shard is verified by the blocks that contain it, so more
        // than the part is read.
        const uint64_t block_bytes =
            GetParam().is_sharded ? stats->stored_bytes : 0;
        EXPECT_GE(system_bytes + 4096, stats->stored_bytes)
            << "the counters miss something";
        EXPECT_LE(system_bytes, stats->stored_bytes + block_bytes + 4096)
            << "the counters miss something";
      }
      EXPECT_TRUE(IsPart(array, shard));
    }
  }
}

// A host reads the bytes that its ranks need only once, even if its ranks need
// the same bytes. Ranks have several devices, hosts one rank or several.
TEST_P(Reshard, AHostReadsWhatItsRanksNeed) {
  for (const auto& [rows, columns] : {std::pair{1, 8}, {2, 4}}) {
    const std::vector<DeviceShard> shards = Shards(rows, columns);
    for (const int64_t rank_count : {2, 4}) {
      for (const int64_t host_count : {1, 2}) {
        OnThreads(rank_count, kPatienceSeconds, [&](ProcessGroup& group) {
          const int64_t rank = group.rank();
          std::vector<TogetherRequest> requests;
          std::vector<DeviceShard> mine;
          for (int64_t i = 0; i < 8; ++i) {
            if (i * rank_count / 8 != rank) continue;
            mine.push_back(shards[i]);
            requests.push_back({0, shards[i].origin, shards[i].shape, {}});
          }
          ReadTogetherOptions options;
          options.host = std::to_string(rank * host_count / rank_count);
          const auto read =
              ReadTogether(*checkpoint_, requests, group, options);
          ASSERT_TRUE(read.ok()) << read.status().ToString();
          EXPECT_LE(read->group_stored_bytes, kArrayBytes * 1.05);
          EXPECT_LE(read->host_stored_bytes, kArrayBytes / host_count * 1.05);
          for (size_t i = 0; i < mine.size(); ++i) {
            EXPECT_TRUE(IsPart(read->arrays[i], mine[i]));
          }
        });
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Reshard,
    testing::Values(
        Layout{"Zarr2ZstdOcdbt", 2, true, Compression::kZstd, false},
        Layout{"Zarr2RawOcdbt", 2, true, Compression::kNone, false},
        Layout{"Zarr2RawFiles", 2, false, Compression::kNone, false},
        Layout{"Zarr3ZstdOcdbt", 3, true, Compression::kZstd, false},
        Layout{"Zarr3RawOcdbt", 3, true, Compression::kNone, false},
        Layout{"ShardedZstdOcdbt", 3, true, Compression::kZstd, true},
        Layout{"ShardedZstdFiles", 3, false, Compression::kZstd, true},
        Layout{"ShardedRawOcdbt", 3, true, Compression::kNone, true},
        Layout{"ShardedRawFiles", 3, false, Compression::kNone, true}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace holdfast
