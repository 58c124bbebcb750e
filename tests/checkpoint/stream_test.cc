// Chunks larger than the byte budget: saved and restored piece by piece, with
// the same values, the same files for any thread count, and the same errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "checkpoint/test_trees.h"
#include "holdfast/holdfast.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr uint64_t kBudgetBytes = 1 << 20;

// Returns an array of which some parts compress well and others do not.
Array MixedArray(DType dtype, Shape shape, uint32_t seed) {
  Array array = RandomArray(dtype, std::move(shape), seed);
  char* data = array.mutable_view().data;
  for (size_t i = 0; i + 4096 <= array.byte_count(); i += 16384) {
    std::fill_n(data + i, 4096, static_cast<char>(i >> 14 & 1));
  }
  return array;
}

SaveOptions Deterministic(SaveOptions options) {
  auto count = std::make_shared<std::atomic<int>>(0);
  options.now_ns = [] { return uint64_t{1}; };
  options.random_hex = [count] {
    char hex[33];
    std::snprintf(hex, sizeof hex, "%032d", (*count)++);
    return std::string(hex);
  };
  return options;
}

std::map<std::string, std::string> StreamFiles(const std::string& root) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    files[fs::relative(entry.path(), root)] =
        std::string(std::istreambuf_iterator<char>(in), {});
  }
  return files;
}

using FileMap = std::map<std::string, std::string>;

void ExpectSameFiles(const FileMap& a_files, const FileMap& b_files) {
  ASSERT_EQ(a_files.size(), b_files.size());
  for (const auto& [name, content] : a_files) {
    ASSERT_TRUE(b_files.contains(name)) << name;
    EXPECT_TRUE(b_files.at(name) == content) << name << " differs";
  }
}

Tree LargeTree() {
  const Array whole = MixedArray(DType::kFloat32, {700, 1000}, 1);
  std::vector<ArrayShard> shards;
  for (int64_t column : {0, 400}) {
    const int64_t width = column == 0 ? 400 : 600;
    shards.push_back(
        {{0, column}, MixedArray(DType::kFloat32, {700, width}, 7)});
  }
  auto traits = std::make_shared<ArrayTraits>();
  traits->write_shape = {700, 1000};
  return Tree::Dict({
      {"bool", Tree(RandomArray(DType::kBool, {3000, 1001}, 2))},
      {"bytes", Tree(RandomArray(DType::kUint8, {3, 1 << 20}, 3))},
      {"int4", Tree(RandomArray(DType::kInt4, {2'500'000}, 4))},
      {"sharded", Tree::ShardedArray({700, 1000}, shards, traits)},
      {"small", Tree(RandomArray(DType::kFloat32, {100}, 5))},
      {"whole", Tree(whole)},
      {"zeros", Tree(*Array::Allocate(DType::kUint8, {1 << 22}))},
  });
}

struct StreamLayout {
  int zarr_format;
  bool use_ocdbt;
  Compression compression;
};

class LargeChunks : public ::testing::TestWithParam<StreamLayout> {
 protected:
  SaveOptions Options() const {
    SaveOptions options;
    options.zarr_format = GetParam().zarr_format;
    options.use_ocdbt = GetParam().use_ocdbt;
    options.compression = GetParam().compression;
    options.chunk_bytes = 0;
    options.run.memory_bytes = kBudgetBytes;
    options.run.threads = 2;
    return Deterministic(options);
  }

  // Saves at always the same path, because the marker contains the path.
  FileMap SavedFiles(const Tree& tree, const SaveOptions& options) const {
    const std::string path = scratch_ / "same";
    const auto saved = Save(path, tree, options);
    EXPECT_TRUE(saved.ok()) << saved.status().ToString();
    FileMap files = StreamFiles(path);
    fs::remove_all(path);
    return files;
  }

  const ScratchDirectory scratch_;
  const std::string path_ = scratch_ / "checkpoint";
};

// Loads the tree without a memory budget.
Tree Loaded(const std::string& path) {
  auto loaded = Load(path);
  EXPECT_TRUE(loaded.ok()) << loaded.status().ToString();
  return loaded.ok() ? loaded->tree : Tree();
}

TEST_P(LargeChunks, ComeBackWithinTheBudget) {
  const Tree tree = LargeTree();
  SaveOptions plain = Options();
  plain.run.memory_bytes = 0;
  ASSERT_TRUE(Save(scratch_ / "plain", tree, plain).ok());
  const auto saved = Save(path_, tree, Options());
  ASSERT_TRUE(saved.ok()) << saved.status().ToString();
  EXPECT_LE(saved->stats.memory_bytes_peak, kBudgetBytes);
  LoadOptions load_options;
  load_options.run.memory_bytes = kBudgetBytes;
  load_options.run.threads = 2;
  const auto loaded = Load(path_, load_options);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_LE(loaded->stats.memory_bytes_peak, kBudgetBytes);
  EXPECT_TRUE(loaded->tree == Loaded(scratch_ / "plain"));
  const auto report = Verify(path_);
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->damages.empty());
  EXPECT_EQ(report->checksummed_chunk_count, report->chunk_count);
}

TEST_P(LargeChunks, AreTheSameFilesForAnyThreadCount) {
  const Tree tree = LargeTree();
  SaveOptions one = Options(), four = Options();
  one.run.threads = 1;
  four.run.threads = 4;
  ExpectSameFiles(SavedFiles(tree, one), SavedFiles(tree, four));
}

// A memory budget does not change the files of a contiguous array.
TEST_P(LargeChunks, InOnePieceAreTheSameFilesForAnyBudget) {
  const Tree tree = Tree::Dict({
      {"mixed", Tree(MixedArray(DType::kFloat32, {1'000'000}, 1))},
      {"random", Tree(RandomArray(DType::kUint8, {3'000'001}, 2))},
      {"zeros", Tree(*Array::Allocate(DType::kUint8, {1 << 22}))},
  });
  SaveOptions unbounded = Options();
  unbounded.run.memory_bytes = 0;
  ExpectSameFiles(SavedFiles(tree, Options()), SavedFiles(tree, unbounded));
}

TEST_P(LargeChunks, AreCastBothWays) {
  const Array source = MixedArray(DType::kInt16, {1500, 1001}, 1);
  SaveOptions options = Options();
  options.save_args["w"].dtype = DType::kFloat32;
  const auto saved = Save(path_, Tree::Dict({{"w", Tree(source)}}), options);
  ASSERT_TRUE(saved.ok()) << saved.status().ToString();
  EXPECT_LE(saved->stats.memory_bytes_peak, kBudgetBytes);
  auto checkpoint = Open(path_);
  ASSERT_TRUE(checkpoint.ok());
  // Two overlapping parts, cast back.
  std::vector<ReadRequest> requests;
  const auto request = [&](Shape origin, Array& part) {
    ReadRequest one;
    one.origin = std::move(origin);
    one.target = part.mutable_view();
    requests.push_back(one);
  };
  Array top = *Array::Allocate(DType::kInt16, {1400, 1001});
  Array right = *Array::Allocate(DType::kInt16, {1500, 400});
  request({0, 0}, top);
  request({0, 601}, right);
  RunOptions run;
  run.memory_bytes = kBudgetBytes;
  run.threads = 2;
  const auto read = (*checkpoint)->ReadInto(requests, run);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_LE(read->memory_bytes_peak, kBudgetBytes);
  const auto* values = reinterpret_cast<const int16_t*>(source.view().data);
  const auto* top_values = reinterpret_cast<const int16_t*>(top.view().data);
  const auto* right_values =
      reinterpret_cast<const int16_t*>(right.view().data);
  EXPECT_TRUE(std::equal(top_values, top_values + 1400 * 1001, values));
  for (int row = 0; row < 1500; ++row) {
    ASSERT_TRUE(std::equal(right_values + row * 400,
                           right_values + row * 400 + 400,
                           values + row * 1001 + 601));
  }
}

TEST_P(LargeChunks, CancelInTheMiddleLeavesNothing) {
  std::atomic<bool> cancel{false};
  SaveOptions options = Options();
  options.run.cancel = &cancel;
  options.run.progress = [&](const Progress& progress) {
    if (progress.done_bytes > 0) cancel = true;
  };
  EXPECT_EQ(Save(path_, LargeTree(), options).status().code(),
            StatusCode::kCancelled);
  EXPECT_TRUE(fs::is_empty(fs::path(path_).parent_path()));
}

// The error message is the same with and without a budget.
TEST_P(LargeChunks, DamageIsNamedAsWithoutABudget) {
  const Tree tree =
      Tree::Dict({{"w", Tree(MixedArray(DType::kFloat32, {1'000'000}, 1))}});
  ASSERT_TRUE(Save(path_, tree, Options()).ok());
  fs::path file;
  for (const auto& entry : fs::recursive_directory_iterator(path_)) {
    if (entry.is_regular_file() &&
        (file.empty() || entry.file_size() > fs::file_size(file))) {
      file = entry.path();
    }
  }
  const uint64_t file_bytes = fs::file_size(file);
  const auto load = [&](uint64_t budget_bytes) {
    LoadOptions options;
    options.run.memory_bytes = budget_bytes;
    options.run.threads = 1;
    return Load(path_, options).status().ToString();
  };
  ASSERT_EQ(load(kBudgetBytes), "OK");
  // Headers, block headers, contents, checksums and shard indexes.
  for (const uint64_t at :
       {uint64_t{0}, uint64_t{4}, uint64_t{5}, uint64_t{9}, uint64_t{12},
        uint64_t{131088}, uint64_t{1'000'000}, file_bytes / 2,
        file_bytes - 4097, file_bytes - 21, file_bytes - 2}) {
    std::fstream edit(file, std::ios::in | std::ios::out | std::ios::binary);
    edit.seekg(static_cast<std::streamoff>(at));
    const char old = static_cast<char>(edit.get());
    edit.seekp(static_cast<std::streamoff>(at));
    edit.put(static_cast<char>(old ^ 0x18));
    edit.flush();
    EXPECT_EQ(load(kBudgetBytes), load(0)) << "byte " << at;
    edit.seekp(static_cast<std::streamoff>(at));
    edit.put(old);
  }
  ASSERT_EQ(load(kBudgetBytes), "OK");
  fs::resize_file(file, file_bytes / 2);
  const std::string truncated = load(kBudgetBytes);
  EXPECT_NE(truncated, "OK");
  EXPECT_EQ(truncated, load(0));
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, LargeChunks,
    ::testing::Values(StreamLayout{2, true, Compression::kZstd},
                      StreamLayout{2, true, Compression::kNone},
                      StreamLayout{3, true, Compression::kZstd},
                      StreamLayout{2, false, Compression::kZstd},
                      StreamLayout{3, false, Compression::kNone}),
    [](const auto& info) {
      const StreamLayout& layout = info.param;
      return "Zarr" + std::to_string(layout.zarr_format) +
             (layout.use_ocdbt ? "Ocdbt" : "Directories") +
             std::to_string(static_cast<int>(layout.compression));
    });

// Shards of several inner chunks, smaller and larger than a piece.
TEST(LargeShards, AreTheSameFilesForAnyBudget) {
  const ScratchDirectory scratch;
  const Array array = MixedArray(DType::kFloat32, {1024, 1000}, 1);
  const Tree tree = Tree::Dict({{"w", Tree(array)}});
  for (const int64_t rows : {32, 512}) {
    FileMap files[2];
    for (const bool is_bounded : {false, true}) {
      SaveOptions options;
      options.zarr_format = 3;
      options.compression = Compression::kZstd;  // planes need whole chunks
      options.run.memory_bytes = is_bounded ? kBudgetBytes : 0;
      options.save_args["w"].read_chunk_shape = Shape{rows, 1000};
      const std::string path = scratch / "checkpoint";
      const auto saved = Save(path, tree, Deterministic(options));
      ASSERT_TRUE(saved.ok()) << saved.status().ToString();
      if (is_bounded) {
        EXPECT_LE(saved->stats.memory_bytes_peak, kBudgetBytes);
      }
      LoadOptions load_options;
      load_options.run.memory_bytes = kBudgetBytes;
      const auto loaded = Load(path, load_options);
      ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
      EXPECT_TRUE(loaded->tree == tree);
      EXPECT_LE(loaded->stats.memory_bytes_peak, kBudgetBytes);
      files[is_bounded] = StreamFiles(path);
      fs::remove_all(path);
    }
    ExpectSameFiles(files[0], files[1]);
  }
}

TEST(Casts, ComplexToBoolIsRefusedInTensorStoresWords) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "checkpoint";
  const Tree tree =
      Tree::Dict({{"w", Tree(RandomArray(DType::kComplex64, {3}, 1))}});
  SaveOptions options;
  options.save_args["w"].dtype = DType::kBool;
  EXPECT_EQ(Save(path, tree, options).status().ToString(),
            "INVALID_ARGUMENT: Destination does not support writing.");
  EXPECT_FALSE(fs::exists(path));
  ASSERT_TRUE(Save(path, tree).ok());
  const auto checkpoint = Open(path);
  ASSERT_TRUE(checkpoint.ok());
  Array target = *Array::Allocate(DType::kBool, {3});
  EXPECT_EQ((*checkpoint)
                ->ReadInto({{0, {0}, target.mutable_view()}})
                .status()
                .ToString(),
            "INVALID_ARGUMENT: Source does not support reading.");
}

// Blosc does not support streaming, so a chunk larger than the budget is
// processed by itself.
TEST(LargeBloscChunks, GoAlone) {
  const ScratchDirectory scratch;
  SaveOptions options;
  options.compression = Compression::kFast;
  options.chunk_bytes = 0;
  options.run.memory_bytes = kBudgetBytes;
  const Tree tree =
      Tree::Dict({{"w", Tree(RandomArray(DType::kFloat32, {1 << 20}, 1))}});
  const auto saved = Save(scratch / "checkpoint", tree, options);
  ASSERT_TRUE(saved.ok()) << saved.status().ToString();
  EXPECT_EQ(saved->stats.memory_bytes_peak, uint64_t{4} << 20);
  EXPECT_TRUE(Loaded(scratch / "checkpoint") == tree);
}

}  // namespace
}  // namespace holdfast
