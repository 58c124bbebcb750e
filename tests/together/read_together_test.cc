// Compares ReadTogether with a slow equivalent, in which each rank reads each
// of its boxes by itself.
#include "holdfast/read_together.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <random>

#include "checkpoint/test_trees.h"
#include "ground/tensor/copy.h"
#include "holdfast/tools/convert.h"
#include "twins/local_ranks.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

// A checkpoint of many leaves, stored in one of the layouts.
struct Stored {
  ScratchDirectory scratch;
  std::string path = scratch / "checkpoint";
  std::unique_ptr<Checkpoint> checkpoint;
};

// Converts the saved values to another program's format.
void MakeForeign(Format format, Stored& stored) {
  ConvertOptions options;
  options.format = format;
  options.sync = false;
  options.check = false;
  const std::string suffix = format == Format::kNpz ? ".npz" : "";
  const std::string path = stored.scratch / ("foreign" + suffix);
  const auto converted = Convert(stored.path, path, options);
  ASSERT_TRUE(converted.ok()) << converted.status().ToString();
  stored.path = path;
}

void SaveRandom(std::mt19937& random, Stored& stored) {
  SaveOptions options;
  options.sync = false;
  options.zarr_format = random() % 2 ? 2 : 3;
  options.use_ocdbt = random() % 2;
  options.compression = static_cast<Compression>(random() % 3);
  options.chunk_bytes = random() % 2 ? 4096 : 0;
  options.write_digests = random() % 2;
  Tree tree = AllKindsTree();
  tree.Add("deep", Tree(RandomArray(DType::kInt16, {6, 5, 40, 3}, random())));
  tree.Add("large", Tree(RandomArray(DType::kFloat32, {350, 260}, random())));
  if (options.zarr_format == 3) {
    // Many chunks in one stored object.
    options.save_args["large"].write_chunk_shape = Shape{350, 260};
    options.save_args["large"].read_chunk_shape = Shape{50, 26};
  }
  const auto saved = Save(stored.path, tree, options);
  ASSERT_TRUE(saved.ok()) << saved.status().ToString();
  const Format foreign[] = {Format::kSafetensors, Format::kNpz, Format::kDcp,
                            Format::kMegatronZarr};
  if (random() % 3 == 0) {
    ASSERT_NO_FATAL_FAILURE(MakeForeign(foreign[random() % 4], stored));
  }
  auto opened = Open(stored.path);
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  stored.checkpoint = *std::move(opened);
}

TogetherRequest RandomRequest(const Checkpoint& checkpoint,
                              std::mt19937& random) {
  TogetherRequest request;
  const std::vector<LeafInfo>& leaves = checkpoint.leaves();
  do {
    request.leaf = random() % leaves.size();
  } while (!leaves[request.leaf].dtype);
  const LeafInfo& leaf = leaves[request.leaf];
  for (const int64_t extent : leaf.shape) {
    const bool is_whole = random() % 3 == 0;
    const int64_t origin = is_whole ? 0 : random() % (extent + 1);
    request.origin.push_back(origin);
    request.shape.push_back(is_whole ? extent
                                     : random() % (extent - origin + 1));
  }
  if (random() % 3 == 0 && DTypeKindOf(*leaf.dtype) != DTypeKind::kComplex) {
    request.dtype = StorableDTypes()[random() % StorableDTypes().size()];
  }
  return request;
}

// Draws the requests of each rank; some ranks have equal requests.
std::vector<std::vector<TogetherRequest>> RandomRequests(
    const Checkpoint& checkpoint, int64_t rank_count, std::mt19937& random) {
  std::vector<TogetherRequest> pool;
  for (int n = random() % 12 + 1; n > 0; --n) {
    pool.push_back(RandomRequest(checkpoint, random));
  }
  std::vector<std::vector<TogetherRequest>> requests(rank_count);
  for (auto& mine : requests) {
    for (int n = random() % 16; n > 0; --n) {
      mine.push_back(random() % 2 ? pool[random() % pool.size()]
                                  : RandomRequest(checkpoint, random));
    }
  }
  return requests;
}

Array ReadAlone(const Checkpoint& checkpoint, const TogetherRequest& request) {
  const auto box =
      checkpoint.ReadBox(request.leaf, request.origin, request.shape);
  EXPECT_TRUE(box.ok()) << box.status().ToString();
  const DType dtype = request.dtype.value_or(box->dtype());
  Array array = *Array::Allocate(dtype, request.shape);
  ConvertStrided(box->view(), array.mutable_view());
  return array;
}

TEST(ReadTogether, GivesWhatEachWouldReadAlone) {
  std::mt19937 random(20);
  for (int round = 0; round < 40; ++round) {
    Stored stored;
    ASSERT_NO_FATAL_FAILURE(SaveRandom(random, stored));
    const Checkpoint& checkpoint = *stored.checkpoint;
    const int64_t rank_count = random() % 4 + 1;
    const auto requests = RandomRequests(checkpoint, rank_count, random);
    std::vector<ReadTogetherOptions> options(rank_count);
    const uint64_t messages[] = {0, 100, 1 << 20};
    const uint64_t broadcast_bytes_max = messages[random() % 3];
    for (ReadTogetherOptions& mine : options) {
      mine.run.threads = random() % 3 + 1;
      mine.run.memory_bytes = random() % 2 ? 1000 : 1 << 20;
      mine.broadcast_bytes_max = broadcast_bytes_max;
      mine.host = std::string(1, 'a' + random() % 3);
    }
    std::vector<ReadTogetherResult> results(rank_count);
    OnThreads(rank_count, kPatienceSeconds, [&](ProcessGroup& group) {
      const int64_t rank = group.rank();
      // Each rank opens the checkpoint itself, as a process would.
      const auto opened = Open(stored.path);
      ASSERT_TRUE(opened.ok());
      auto read = ReadTogether(**opened, requests[rank], group, options[rank]);
      ASSERT_TRUE(read.ok()) << read.status().ToString();
      results[rank] = *std::move(read);
    });
    if (testing::Test::HasFatalFailure()) return;
    for (int64_t rank = 0; rank < rank_count; ++rank) {
      ASSERT_EQ(results[rank].arrays.size(), requests[rank].size());
      EXPECT_EQ(results[rank].note, "");
      for (size_t i = 0; i < requests[rank].size(); ++i) {
        const TogetherRequest& request = requests[rank][i];
        Array& array = results[rank].arrays[i];
        EXPECT_TRUE(Tree(array) == Tree(ReadAlone(checkpoint, request)))
            << "round " << round << " rank " << rank << " "
            << checkpoint.leaves()[request.leaf].name << " "
            << ShapeToString(request.origin) << ShapeToString(request.shape);
        // Overwrites and frees the array, which no other rank may notice.
        std::memset(array.mutable_view().data, 0x5a, array.byte_count());
        array = Array();
      }
    }
  }
}

// A complete array that all ranks request is read only once, and is in memory
// only once.
TEST(ReadTogether, StoredBytesAreReadOnceAHost) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "checkpoint";
  SaveOptions save;
  save.sync = false;
  save.chunk_bytes = 64 << 10;
  const Array whole = RandomArray(DType::kFloat32, {1024, 2048}, 3);
  ASSERT_TRUE(Save(path, Tree::Dict({{"w", Tree(whole)}}), save).ok());
  const auto opened = Open(path);
  ASSERT_TRUE(opened.ok());
  Array alone = *Array::Allocate(DType::kFloat32, {1024, 2048});
  const uint64_t alone_bytes =
      (*opened)->ReadInto({{0, {0, 0}, alone.mutable_view()}})->stored_bytes;
  ASSERT_GT(alone_bytes, 8u << 20);
  for (const int64_t rank_count : {2, 4}) {
    for (const bool is_shared : {true, false}) {
      OnThreads(rank_count, kPatienceSeconds, [&](ProcessGroup& group) {
        ReadTogetherOptions options;
        if (!is_shared) options.host = std::to_string(group.rank());
        const auto read = ReadTogether(
            **opened, {{0, {0, 0}, {1024, 2048}, {}}}, group, options);
        ASSERT_TRUE(read.ok()) << read.status().ToString();
        EXPECT_EQ(read->host_rank_count, is_shared ? rank_count : 1);
        EXPECT_EQ(read->host_stored_bytes, alone_bytes);
        EXPECT_EQ(read->group_stored_bytes,
                  is_shared ? alone_bytes : rank_count * alone_bytes);
        const uint64_t share = alone_bytes / read->host_rank_count;
        EXPECT_NEAR(read->stats.stored_bytes, share, share / 4);
        EXPECT_TRUE(Tree(read->arrays[0]) == Tree(whole));
      });
    }
  }
}

TEST(ReadTogether, WhatTravelsIsReadOnceAGroup) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "checkpoint";
  SaveOptions save;
  save.sync = false;
  Tree tree = Tree::Dict();
  for (int i = 0; i < 8; ++i) {
    tree.Add("w" + std::to_string(i),
             Tree(RandomArray(DType::kFloat32, {64, 512}, i)));
  }
  ASSERT_TRUE(Save(path, tree, save).ok());
  const auto opened = Open(path);
  ASSERT_TRUE(opened.ok());
  OnThreads(4, kPatienceSeconds, [&](ProcessGroup& group) {
    ReadTogetherOptions options;
    options.host = group.rank() < 2 ? "left" : "right";
    options.broadcast_bytes_max = 10000;
    std::vector<TogetherRequest> requests;
    for (size_t leaf = 0; leaf < 8; ++leaf) {
      requests.push_back({leaf, {0, 0}, {64, 512}, {}});
    }
    const auto read = ReadTogether(**opened, requests, group, options);
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_NEAR(read->group_stored_bytes, 8 * 64 * 512 * 4, 1000);
    EXPECT_NEAR(read->host_stored_bytes, read->group_stored_bytes / 2,
                read->group_stored_bytes / 10);
    for (size_t leaf = 0; leaf < 8; ++leaf) {
      EXPECT_TRUE(Tree(read->arrays[leaf]) ==
                  Tree(RandomArray(DType::kFloat32, {64, 512}, leaf)));
    }
  });
}

TEST(ReadTogether, TwiceTheSameIsTwoArrays) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "checkpoint";
  SaveOptions save;
  save.sync = false;
  const Array whole = RandomArray(DType::kFloat32, {32, 32}, 3);
  ASSERT_TRUE(Save(path, Tree::Dict({{"w", Tree(whole)}}), save).ok());
  const auto opened = Open(path);
  ASSERT_TRUE(opened.ok());
  const auto group = SingleProcessGroup();
  const TogetherRequest request{0, {0, 0}, {32, 32}, {}};
  auto read = ReadTogether(**opened, {request, request}, *group);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  std::memset(read->arrays[0].mutable_view().data, 0, 4096);
  EXPECT_TRUE(Tree(read->arrays[1]) == Tree(whole));
}

}  // namespace
}  // namespace holdfast
