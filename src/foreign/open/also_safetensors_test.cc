// Saves whose arrays are in safetensors files. Both formats have every value,
// damage to the shared bytes is found through both, and several ranks write the
// files together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "checkpoint/leaf_lines.h"
#include "checkpoint/test_trees.h"
#include "ground/tensor/box.h"
#include "ground/tensor/copy.h"
#include "holdfast/process_group.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr DType kDTypes[] = {
    DType::kBool,         DType::kInt4,      DType::kInt8,
    DType::kUint16,       DType::kInt64,     DType::kFloat16,
    DType::kFloat32,      DType::kFloat64,   DType::kBfloat16,
    DType::kFloat8E4m3fn, DType::kComplex64, DType::kComplex128};

Array Bits(DType dtype, Shape shape, uint32_t seed) {
  return RandomArray(dtype, std::move(shape), seed);
}

// Returns a tree with every dtype, in shapes that reveal errors in runs.
Tree ManyLeaves() {
  std::vector<Tree::Member> members;
  uint32_t seed = 1;
  for (const DType dtype : kDTypes) {
    members.push_back({"of_" + std::string(DTypeName(dtype)),
                       Tree(Bits(dtype, {33, 7, 5}, seed++))});
  }
  members.push_back({"point", Tree(Bits(DType::kFloat32, {}, 2))});
  members.push_back({"prime", Tree(Bits(DType::kFloat32, {1009, 97}, 3))});
  members.push_back({"long", Tree(Bits(DType::kBfloat16, {300000}, 4))});
  return Tree::Dict({{"params", Tree::Dict(std::move(members))},
                     {"step", 7},
                     {"rate", 0.5},
                     {"words", std::string(5000, 'w')},
                     {"word", "w"},
                     {"list", Tree::List({Tree(Bits(DType::kInt8, {9}, 5))})},
                     {"nothing", Tree::Dict({})}});
}

uint64_t BytesBelow(const std::string& path) {
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  return bytes;
}

class AlsoTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const {
    return directory_.path() + "/" + name;
  }

  ScratchDirectory directory_;
};

TEST_F(AlsoTest, BothFacesHaveEveryValue) {
  const Tree tree = ManyLeaves();
  const auto plain = Save(Path("plain"), tree);
  ASSERT_TRUE(plain.ok()) << plain.status().ToString();
  const std::vector<std::string> want = LinesOf(Path("plain"));
  int number = 0;
  for (const Format format : {Format::kOrbax, Format::kOrbaxV1}) {
    for (const int zarr_format : {2, 3}) {
      for (const uint64_t shard_bytes : {uint64_t{0}, uint64_t{200'000}}) {
        for (const uint64_t chunk_bytes : {uint64_t{0}, uint64_t{100'000}}) {
          SCOPED_TRACE(number);
          const std::string path = Path("both" + std::to_string(number++));
          SaveOptions options;
          options.format = format;
          options.zarr_format = zarr_format;
          options.chunk_bytes = chunk_bytes;
          options.also = AlsoSafetensors(shard_bytes);
          const auto saved = Save(path, tree, options);
          ASSERT_TRUE(saved.ok()) << saved.status().ToString();
          EXPECT_EQ(LinesOf(path), want);
          const std::string item =
              format == Format::kOrbaxV1 ? path + "/state" : path;
          const std::string model =
              item + (shard_bytes == 0 ? "/model.safetensors"
                                       : "/model.safetensors.index.json");
          EXPECT_EQ(LinesOf(model), want);
          const auto report = Verify(path);
          ASSERT_TRUE(report.ok()) << report.status().ToString();
          for (const auto& damage : report->damages)
            ADD_FAILURE() << damage.file << ": " << damage.status.ToString();
        }
      }
    }
  }
}

TEST_F(AlsoTest, NothingIsWrittenTwice) {
  const Tree tree =
      Tree::Dict({{"w", Tree(Bits(DType::kFloat32, {1000, 1000}, 1))}});
  SaveOptions options;
  options.also = AlsoSafetensors();
  ASSERT_TRUE(Save(Path("both"), tree, options).ok());
  EXPECT_LT(BytesBelow(Path("both")), 4'000'000u + 20'000u);
}

TEST_F(AlsoTest, AStreamOfPiecesIsTheSame) {
  const Tree tree = ManyLeaves();
  SaveOptions options;
  options.also = AlsoSafetensors();
  options.chunk_bytes = 0;
  ASSERT_TRUE(Save(Path("whole"), tree, options).ok());
  options.run.memory_bytes = 50'000;
  options.run.threads = 3;
  ASSERT_TRUE(Save(Path("pieces"), tree, options).ok());
  EXPECT_EQ(LinesOf(Path("pieces")), LinesOf(Path("whole")));
}

// Verification notices a flipped byte anywhere in the files, including headers,
// and a load never returns another value.
TEST_F(AlsoTest, AFlippedByteIsFound) {
  const Tree tree = Tree::Dict({{"a", Tree(Bits(DType::kInt16, {50, 7}, 1))},
                                {"b", std::string(5000, 'b')},
                                {"c", Tree(Bits(DType::kFloat32, {40}, 2))}});
  SaveOptions options;
  options.also = AlsoSafetensors();
  ASSERT_TRUE(Save(Path("both"), tree, options).ok());
  const std::vector<std::string> want = LinesOf(Path("both"));
  const auto before = Verify(Path("both"));
  ASSERT_TRUE(before.ok() && before->damages.empty());
  const std::string file = Path("both") + "/model.safetensors";
  const uint64_t size = fs::file_size(file);
  for (uint64_t offset = 0; offset < size; offset += 61) {
    SCOPED_TRACE(offset);
    const auto flip = [&] {
      std::fstream stream(file,
                          std::ios::in | std::ios::out | std::ios::binary);
      stream.seekg(static_cast<std::streamoff>(offset));
      const int byte = stream.get();
      stream.seekp(static_cast<std::streamoff>(offset));
      stream.put(static_cast<char>(byte ^ 16));
    };
    flip();
    const auto report = Verify(Path("both"));
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    EXPECT_FALSE(report->damages.empty());
    const auto loaded = Load(Path("both"));
    if (loaded.ok()) {
      EXPECT_EQ(LinesOf(Path("both")), want);
    } else {
      EXPECT_EQ(loaded.status().code(), StatusCode::kDataLoss);
    }
    flip();
  }
}

TEST_F(AlsoTest, ItIsReplacedAsAnyCheckpoint) {
  SaveOptions options;
  options.also = AlsoSafetensors(1000);
  ASSERT_TRUE(Save(Path("both"), ManyLeaves(), options).ok());
  const Tree other = Tree::Dict({{"x", Tree(Bits(DType::kInt8, {3}, 1))}});
  SaveOptions plain;
  plain.overwrite = true;
  const auto saved = Save(Path("both"), other, plain);
  ASSERT_TRUE(saved.ok()) << saved.status().ToString();
  EXPECT_FALSE(fs::exists(Path("both") + "/model.safetensors.index.json"));
  EXPECT_EQ(LinesOf(Path("both")).size(), 1u);
}

TEST_F(AlsoTest, WhatCannotBeIsRefusedBeforeAnythingIsThere) {
  const Tree tree = Tree::Dict({{"x", Tree(Bits(DType::kInt8, {3}, 1))}});
  const auto refused = [&](const std::function<void(SaveOptions&)>& change,
                           const Tree& saved, const std::string& words) {
    SaveOptions options;
    options.also = AlsoSafetensors();
    change(options);
    const auto result = Save(Path("refused"), saved, options);
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(result.status().message()), HasSubstr(words));
    EXPECT_FALSE(fs::exists(Path("refused")));
  };
  refused([](SaveOptions& o) { o.use_ocdbt = false; }, tree,
          "want a database (ocdbt)");
  refused([](SaveOptions& o) { o.compression = Compression::kZstd; }, tree,
          "cannot be compressed (got compression zstd)");
  refused([](SaveOptions& o) { o.write_digests = false; }, tree,
          "write_digests");
  refused([](SaveOptions& o) { o.save_args["x"].write_chunk_shape = Shape{1}; },
          tree, "chunk shapes cannot be chosen");
  refused([](SaveOptions&) {},
          Tree::Dict({{"__metadata__", Tree(Bits(DType::kInt8, {3}, 1))}}),
          "__metadata__");
}

TEST_F(AlsoTest, ManyRanksWriteOneFile) {
  constexpr int64_t kRankCount = 4;
  const Array rows = Bits(DType::kFloat32, {16, 300}, 1);
  const Array columns = Bits(DType::kInt16, {6, 64}, 2);
  const Array host = Bits(DType::kFloat64, {5}, 3);
  const auto part = [](const Array& whole, const Box& box) {
    Array copy = *Array::Allocate(whole.dtype(), box.shape);
    CopyStrided(Subview(whole.view(), box), copy.mutable_view());
    return copy;
  };
  const auto traits = [](Shape write_shape) {
    return std::make_shared<const ArrayTraits>(
        ArrayTraits{"{}", "", std::move(write_shape)});
  };
  const auto tree_of = [&](int64_t rank) {
    const Box row{{4 * rank, 0}, {4, 300}}, column{{0, 16 * rank}, {6, 16}};
    return Tree::Dict(
        {{"rows", Tree::ShardedArray(DType::kFloat32, {16, 300},
                                     {{row.origin, part(rows, row)}},
                                     traits({4, 300}))},
         {"columns",
          Tree::ShardedArray(DType::kInt16, {6, 64},
                             {{column.origin, part(columns, column)}},
                             traits({6, 16}))},
         {"host", host},
         {"step", 3}});
  };
  ASSERT_TRUE(
      Save(Path("alone"),
           Tree::Dict({{"rows", Tree::JaxArray(rows, traits({4, 300}))},
                       {"columns", Tree::JaxArray(columns, traits({6, 16}))},
                       {"host", host},
                       {"step", 3}}))
          .ok());
  const std::vector<std::string> want = LinesOf(Path("alone"));
  for (const uint64_t shard_bytes : {uint64_t{0}, uint64_t{10'000}}) {
    const std::string path = Path("ranks" + std::to_string(shard_bytes));
    const auto transports = MakeThreadTransports(kRankCount);
    std::vector<Status> statuses(kRankCount);
    std::vector<std::thread> threads;
    for (int64_t rank = 0; rank < kRankCount; ++rank) {
      threads.emplace_back([&, rank] {
        const auto group =
            MakeProcessGroup(transports[rank], {.timeout_seconds = 60});
        SaveOptions options;
        options.group = group.get();
        options.also = AlsoSafetensors(shard_bytes);
        statuses[rank] = Save(path, tree_of(rank), options).status();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Status& status : statuses) {
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
    EXPECT_EQ(LinesOf(path), want);
    EXPECT_EQ(
        LinesOf(path + (shard_bytes == 0 ? "/model.safetensors"
                                         : "/model.safetensors.index.json")),
        want);
    const auto report = Verify(path);
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    for (const auto& damage : report->damages)
      ADD_FAILURE() << damage.file << ": " << damage.status.ToString();
  }
}

}  // namespace
}  // namespace holdfast
