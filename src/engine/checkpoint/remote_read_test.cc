// Counts the requests for opening and reading a checkpoint when each takes some
// time.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "engine/checkpoint/opened_checkpoint.h"
#include "holdfast/checkpoint.h"
#include "stores/place/directory_ops.h"
#include "stores/place/file_walk.h"
#include "stores/place/look.h"
#include "stores/place/place.h"
#include "twins/mem_bucket.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

constexpr char kUrl[] = "mem://test/ckpt";

Array CountingArray(DType dtype, const Shape& shape) {
  Array array = *Array::Allocate(dtype, shape);
  uint32_t state = 1;
  for (size_t i = 0; i < array.byte_count(); ++i) {
    state = state * 1664525 + 1013904223;
    array.mutable_view().data[i] = static_cast<char>(state >> 24);
  }
  return array;
}

class RemoteReadTest : public testing::Test {
 protected:
  // Saves to a local directory, whose files then become objects.
  void SaveToBucket(const Tree& tree, const SaveOptions& options = {}) {
    const std::string path = scratch_ / "ckpt";
    std::filesystem::remove_all(path);
    SaveOptions quick = options;
    quick.sync = false;
    const auto saved = Save(path, tree, quick);
    ASSERT_TRUE(saved.ok()) << saved.status().ToString();
    const auto store = Place(path).OpenStore();
    ASSERT_TRUE(WalkFiles(Place(path), [&](const WalkedFile& file) {
                  const Bytes content = store->Read(file.path).value();
                  mem_.Put("ckpt/" + file.path, content.view());
                }).ok());
    mem_.Put("ckpt/commit_success.txt", "");
    mem_.bucket->ResetCounters();
  }
  uint64_t RoundTrips() const { return mem_.bucket->counters().round_trips; }
  uint64_t Gets() const {
    return mem_.bucket->counters().of(BucketRequest::kGet);
  }
  uint64_t ReadBytes() const { return mem_.bucket->counters().read_bytes; }

  void ExpectSame(const Tree& loaded, const Tree& saved) {
    ASSERT_EQ(loaded.size(), saved.size());
    for (const std::string& name : saved.keys()) {
      const Array& value = saved.Find(name)->array();
      const Tree* other = loaded.Find(name);
      ASSERT_NE(other, nullptr) << name;
      const ConstArrayView a = value.view();
      const ConstArrayView b = other->array().view();
      ASSERT_EQ(a.shape, b.shape);
      EXPECT_EQ(std::memcmp(a.data, b.data, value.byte_count()), 0) << name;
    }
  }

  ScratchDirectory scratch_;
  MemBucketForTest mem_;
};

Tree ManyLeaves(int count) {
  std::vector<Tree::Member> members;
  for (int i = 0; i < count; ++i) {
    members.emplace_back("layer_" + std::to_string(i),
                         Tree(CountingArray(DType::kFloat32, {i % 7 + 1})));
  }
  return Tree::Dict(std::move(members));
}

TEST_F(RemoteReadTest, TwentyThousandLeavesOpenInThreeRoundTripsAndAList) {
  constexpr int kLeafCount = 20'000;
  SaveToBucket(ManyLeaves(kLeafCount));
  OpenOptions options;
  options.stored_sizes = true;
  const auto opened = OpenCheckpoint(Place(kUrl), options);
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  EXPECT_EQ((*opened)->leaves().size(), size_t{kLeafCount});
  for (const LeafInfo& leaf : (*opened)->leaves()) {
    ASSERT_TRUE(leaf.problem.ok()) << leaf.problem.ToString();
  }
  EXPECT_EQ(mem_.bucket->counters().of(BucketRequest::kList), 1u);
  EXPECT_EQ(mem_.bucket->counters().of(BucketRequest::kHead), 0u);
  EXPECT_LE(RoundTrips(), 1u + 3u)
      << testing::PrintToString(mem_.bucket->requests());
}

// Four files describe the leaves, and each is checked; the rest can be read
// later.
TEST_F(RemoteReadTest, LeavesAloneTakeFourRequestsAndAList) {
  const Tree tree = ManyLeaves(300);
  SaveToBucket(tree);
  const OpenOptions options{.leaves_only = true};
  const auto opened = OpenCheckpoint(Place(kUrl), options);
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  ASSERT_EQ((*opened)->leaves().size(), 300u);
  EXPECT_EQ(Gets(), 4u) << testing::PrintToString(mem_.bucket->requests());
  EXPECT_EQ(mem_.bucket->counters().of(BucketRequest::kList), 1u);
  EXPECT_EQ((*opened)->info().checkpoint_metadata, "");
  const Array value = (*opened)->Read("layer_5").value();
  EXPECT_EQ(
      std::memcmp(value.view().data, tree.Find("layer_5")->array().view().data,
                  value.byte_count()),
      0);
}

TEST_F(RemoteReadTest, WhatTellsOfTheLeavesIsChecked) {
  const OpenOptions leaves_only{.leaves_only = true};
  for (const std::string name : {"_METADATA", "manifest.ocdbt"}) {
    SaveToBucket(ManyLeaves(3));
    std::string content =
        Place(kUrl).OpenStore()->Read(name).value().ToString();
    content[content.size() / 2] ^= 1;
    mem_.Put("ckpt/" + name, content);
    EXPECT_EQ(OpenCheckpoint(Place(kUrl), leaves_only).status().code(),
              StatusCode::kDataLoss)
        << name;
  }
  // A file that is not read is not checked, but must exist.
  SaveToBucket(ManyLeaves(3));
  mem_.Put("ckpt/_CHECKPOINT_METADATA", "{}");
  EXPECT_EQ(OpenCheckpoint(Place(kUrl), {}).status().code(),
            StatusCode::kDataLoss);
  EXPECT_TRUE(OpenCheckpoint(Place(kUrl), leaves_only).ok());
  ASSERT_TRUE(Place(kUrl).OpenStore()->Delete("_CHECKPOINT_METADATA").ok());
  EXPECT_EQ(OpenCheckpoint(Place(kUrl), leaves_only).status().code(),
            StatusCode::kDataLoss);
}

TEST_F(RemoteReadTest, LoadsWhatWasSaved) {
  const Tree tree = ManyLeaves(300);
  for (const bool use_ocdbt : {true, false}) {
    for (const int zarr_format : {2, 3}) {
      MemBucketForTest fresh;
      mem_ = fresh;
      SaveOptions options;
      options.use_ocdbt = use_ocdbt;
      options.zarr_format = zarr_format;
      SaveToBucket(tree, options);
      const auto loaded = LoadCheckpoint(Place(std::string(kUrl)), {});
      ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
      ExpectSame(loaded->tree, tree);
      EXPECT_EQ(mem_.bucket->counters().of(BucketRequest::kHead), 0u);
      if (use_ocdbt) {
        EXPECT_LE(RoundTrips(), 6u);
      } else {
        // Metadata and one chunk per leaf.
        EXPECT_LE(Gets(), 2 * 300u + 20);
      }
    }
  }
}

// The requests wait for each other: sent one by one, they would never end.
TEST_F(RemoteReadTest, ManyRequestsAreInFlight) {
  const Tree tree = ManyLeaves(64);
  SaveOptions options;
  options.use_ocdbt = false;
  SaveToBucket(tree, options);
  constexpr int kTogether = 8;
  std::mutex mutex;
  std::condition_variable changed;
  int chunk_count = 0;
  bool is_late = false;
  mem_.bucket->SetHook([&](BucketRequest kind, std::string_view key) {
    if (kind != BucketRequest::kGet || !key.ends_with("/0")) return Status();
    std::unique_lock lock(mutex);
    ++chunk_count;
    changed.notify_all();
    is_late |= !changed.wait_for(lock, std::chrono::seconds(60), [&] {
      return is_late || chunk_count >= kTogether;
    });
    return Status();
  });
  const auto loaded = LoadCheckpoint(Place(std::string(kUrl)), {});
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  ExpectSame(loaded->tree, tree);
  EXPECT_FALSE(is_late);
  EXPECT_GE(chunk_count, kTogether);
}

TEST_F(RemoteReadTest, LargeChunksComeInPlaceAndInParts) {
  std::vector<Tree::Member> members;
  for (int i = 0; i < 2; ++i) {
    members.emplace_back("w" + std::to_string(i),
                         Tree(CountingArray(DType::kFloat32, {5, 1 << 20})));
  }
  const Tree tree = Tree::Dict(std::move(members));
  for (const Compression compression :
       {Compression::kNone, Compression::kZstd}) {
    SaveOptions options;
    options.compression = compression;
    options.chunk_bytes = 0;
    SaveToBucket(tree, options);
    const auto loaded = LoadCheckpoint(Place(std::string(kUrl)), {});
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    ExpectSame(loaded->tree, tree);
  }
}

TEST_F(RemoteReadTest, ARowOfASubChunkedArrayTakesFewRequests) {
  // The array is cut into chunks of 1 MiB along the rows.
  const Tree tree =
      Tree::Dict({{"w", Tree(CountingArray(DType::kFloat32, {512, 8192}))}});
  for (const int zarr_format : {2, 3}) {
    for (const Compression compression :
         {Compression::kNone, Compression::kZstd}) {
      SaveOptions options;
      options.zarr_format = zarr_format;
      options.compression = compression;
      options.chunk_bytes = 1 << 20;
      SaveToBucket(tree, options);
      const auto opened = OpenCheckpoint(Place(kUrl), {});
      ASSERT_TRUE(opened.ok()) << opened.status().ToString();
      mem_.bucket->ResetCounters();
      const auto row = (*opened)->ReadBox(0, {321, 0}, {1, 8192});
      ASSERT_TRUE(row.ok()) << row.status().ToString();
      const Array& whole = tree.Find("w")->array();
      EXPECT_EQ(std::memcmp(row->view().data,
                            whole.view().data + 321 * 8192 * 4, 8192 * 4),
                0);
      EXPECT_LE(mem_.bucket->counters().request_count(), 4u);
      EXPECT_LE(ReadBytes(), 2u << 20);
    }
  }
}

TEST_F(RemoteReadTest, ABoxOfManyChunksReadsThemAtOnce) {
  const Tree tree =
      Tree::Dict({{"w", Tree(CountingArray(DType::kFloat32, {256, 4096}))}});
  SaveOptions options;
  options.chunk_bytes = 64 << 10;
  options.use_ocdbt = false;
  SaveToBucket(tree, options);
  const auto opened = OpenCheckpoint(Place(kUrl), {});
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  const auto box = (*opened)->ReadBox(0, {10, 5}, {200, 4000});
  ASSERT_TRUE(box.ok()) << box.status().ToString();
  const Array& whole = tree.Find("w")->array();
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(
        std::memcmp(box->view().data + i * 4000 * 4,
                    whole.view().data + ((10 + i) * 4096 + 5) * 4, 4000 * 4),
        0);
  }
}

TEST_F(RemoteReadTest, AReplacedObjectIsNeverMixedIn) {
  SaveToBucket(ManyLeaves(5));
  const auto opened = OpenedCheckpoint::Open(Place(kUrl), {});
  ASSERT_TRUE(opened.ok());
  // Another save stores other data under the names that were seen.
  const auto names = ListDirectory(Place(std::string(kUrl) + "/d"));
  ASSERT_TRUE(names.ok());
  for (const std::string& name : *names) {
    mem_.memory->Damage("ckpt/d/" + name, 0);
  }
  const auto loaded = LoadCheckpoint(**opened, {});
  // Small data files were fetched during opening; all other reads are refused.
  if (!loaded.ok()) {
    EXPECT_EQ(loaded.status().code(), StatusCode::kDataLoss);
  } else {
    ExpectSame(loaded->tree, ManyLeaves(5));
  }
}

MemoryBucketOptions NoLists() {
  MemoryBucketOptions options = MemoryBucketOptions::S3Like();
  options.traits.can_list = false;
  return options;
}

TEST_F(RemoteReadTest, OpensWhereNothingCanBeListed) {
  const Tree tree = ManyLeaves(30);
  MemBucketForTest web(NoLists());
  mem_ = web;
  SaveToBucket(tree);
  const auto loaded = LoadCheckpoint(Place(std::string(kUrl)), {});
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  ExpectSame(loaded->tree, tree);
}

}  // namespace
}  // namespace holdfast
