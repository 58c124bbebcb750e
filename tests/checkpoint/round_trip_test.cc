// Save, then Load, Open and Verify, for every layout and option.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "checkpoint/test_trees.h"
#include "ground/tensor/copy.h"
#include "twins/file_bytes.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

struct RoundLayout {
  Format format;
  int zarr_format;
  bool use_ocdbt;
  Compression compression;
  uint64_t chunk_bytes;
};

class RoundTrip : public testing::TestWithParam<RoundLayout> {
 protected:
  SaveOptions Options() const {
    SaveOptions options;
    options.format = GetParam().format;
    options.zarr_format = GetParam().zarr_format;
    options.use_ocdbt = GetParam().use_ocdbt;
    options.compression = GetParam().compression;
    options.chunk_bytes = GetParam().chunk_bytes;
    options.sync = false;  // does not change the files
    return options;
  }
};

TEST_P(RoundTrip, LoadGivesBackWhatWasSaved) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "ckpt";
  const Tree tree = AllKindsTree();
  const auto saved = Save(path, tree, Options());
  ASSERT_TRUE(saved.ok()) << saved.status().ToString();
  const auto loaded = Load(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_TRUE(loaded->tree == tree);
  const auto report = Verify(path);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_TRUE(report->damages.empty()) << report->damages[0].status.ToString();
  EXPECT_EQ(report->checksummed_chunk_count, report->chunk_count);
  EXPECT_GT(report->chunk_count, 0u);
}

TEST_P(RoundTrip, SameBytesForAnyThreadCount) {
  const ScratchDirectory scratch;
  std::map<std::string, std::string> files[2];
  for (int run = 0; run < 2; ++run) {
    SaveOptions options = Options();
    options.run.threads = run == 0 ? 1 : 8;
    options.now_ns = [] { return uint64_t{1'700'000'000'000'000'000}; };
    options.random_hex = [counter = uint64_t{0}]() mutable {
      char text[33];
      std::snprintf(text, sizeof text, "%032lx", ++counter);
      return std::string(text);
    };
    // The marker contains the path, so the path must be the same.
    const std::string target =
        testing::TempDir() + "/holdfast_same_path_" + std::to_string(getpid());
    fs::remove_all(target);
    const auto saved = Save(target, AllKindsTree(), options);
    ASSERT_TRUE(saved.ok()) << saved.status().ToString();
    files[run] = FilesBelow(target);
    fs::remove_all(target);
  }
  EXPECT_TRUE(files[0] == files[1]);
  EXPECT_FALSE(files[0].empty());
}

TEST_P(RoundTrip, SlicesEqualThePartsOfTheWhole) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "ckpt";
  ASSERT_TRUE(Save(path, AllKindsTree(), Options()).ok());
  const auto checkpoint = Open(path);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().ToString();
  const auto leaf = (*checkpoint)->Find("big");
  ASSERT_TRUE(leaf.ok());
  const auto whole = (*checkpoint)->Read(*leaf);
  ASSERT_TRUE(whole.ok());
  for (const int64_t row : {0, 13, 63}) {
    const auto part = (*checkpoint)->ReadBox(*leaf, {row, 5}, {1, 7});
    ASSERT_TRUE(part.ok()) << part.status().ToString();
    EXPECT_EQ(std::memcmp(part->view().data,
                          whole->view().data + (row * 33 + 5) * 4, 28),
              0);
  }
  EXPECT_EQ((*checkpoint)->ReadBox(*leaf, {60, 0}, {5, 1}).status().code(),
            StatusCode::kOutOfRange);
  EXPECT_EQ((*checkpoint)->ReadBox(*leaf, {0}, {1}).status().code(),
            StatusCode::kInvalidArgument);
}

// Elements are random bytes, so that NaNs with any payload, bools that are
// neither 0 nor 1, and unused bits of sub-byte elements occur. All bits are
// restored, except the unused bits of bools and sub-byte elements.
TEST_P(RoundTrip, AnyBytesOfAnyDTypeComeBack) {
  Tree tree = Tree::Dict();
  Tree want = Tree::Dict();
  std::mt19937 random(7);
  for (const DType dtype : StorableDTypes()) {
    std::string bytes(16 * 17 * DTypeBytes(dtype), '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    const Shape shape = {16, 17};
    const std::string name(DTypeName(dtype));
    tree.Add(name, Tree(Array::FromBytes(dtype, shape, bytes.data())));
    tree.Add(name + "_0d", Tree(Array::FromBytes(dtype, {}, bytes.data())));
    ClearUnusedBits(dtype, bytes.data(), 16 * 17);
    want.Add(name, Tree(Array::FromBytes(dtype, shape, bytes.data())));
    want.Add(name + "_0d", Tree(Array::FromBytes(dtype, {}, bytes.data())));
  }
  const ScratchDirectory scratch;
  const std::string path = scratch / "ckpt";
  const auto saved = Save(path, tree, Options());
  ASSERT_TRUE(saved.ok()) << saved.status().ToString();
  const auto loaded = Load(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_TRUE(loaded->tree == want);
  const auto report = Verify(path);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_TRUE(report->damages.empty()) << report->damages[0].status.ToString();
}

std::vector<RoundLayout> AllLayouts() {
  std::vector<RoundLayout> layouts;
  for (const Format format : {Format::kOrbax, Format::kOrbaxV1}) {
    for (const int zarr_format : {2, 3}) {
      for (const bool use_ocdbt : {true, false}) {
        for (const Compression compression :
             {Compression::kPlanes, Compression::kZstd, Compression::kFast,
              Compression::kNone}) {
          for (const uint64_t chunk_bytes : {uint64_t{8} << 20, uint64_t{64}}) {
            layouts.push_back(
                {format, zarr_format, use_ocdbt, compression, chunk_bytes});
          }
        }
      }
    }
  }
  return layouts;
}

std::string LayoutName(const testing::TestParamInfo<RoundLayout>& info) {
  const RoundLayout& layout = info.param;
  return std::string(layout.format == Format::kOrbax ? "Orbax" : "V1") +
         "Zarr" + std::to_string(layout.zarr_format) +
         (layout.use_ocdbt ? "Ocdbt" : "Directories") +
         std::string(CompressionName(layout.compression)) +
         (layout.chunk_bytes == 64 ? "SmallChunks" : "");
}

INSTANTIATE_TEST_SUITE_P(Layouts, RoundTrip, testing::ValuesIn(AllLayouts()),
                         LayoutName);

TEST(Load, SelectsLeavesByName) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "ckpt";
  ASSERT_TRUE(Save(path, AllKindsTree()).ok());
  LoadOptions options;
  options.names = {"arrays.int8", "list"};
  const auto loaded = Load(path, options);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(loaded->tree.size(), 2u);
  EXPECT_NE(loaded->tree.FindPath({"arrays", "int8"}), nullptr);
  EXPECT_EQ(loaded->tree.Find("list")->size(), 3u);
  options.names = {"arrays.int"};
  EXPECT_EQ(Load(path, options).status().code(), StatusCode::kNotFound);
}

TEST(Save, RefusesAnExistingDestination) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "ckpt";
  const Tree first = Tree::Dict({{"a", 1}});
  const Tree second = Tree::Dict({{"a", 2}});
  ASSERT_TRUE(Save(path, first).ok());
  const auto refused = Save(path, second);
  EXPECT_EQ(refused.status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(refused.status().message(),
            "Destination " + path + " already exists.");
  EXPECT_TRUE(Load(path)->tree == first);
  SaveOptions overwrite;
  overwrite.overwrite = true;
  ASSERT_TRUE(Save(path, second, overwrite).ok());
  EXPECT_TRUE(Load(path)->tree == second);
  EXPECT_EQ(std::distance(fs::directory_iterator(fs::path(path).parent_path()),
                          fs::directory_iterator()),
            1);
}

TEST(Save, NeverOverwritesWhatIsNoCheckpoint) {
  const ScratchDirectory scratch;
  const std::string home = scratch.path();
  std::ofstream(home + "/thesis.txt") << "years of work";
  SaveOptions overwrite;
  overwrite.overwrite = true;
  const auto refused = Save(home, Tree::Dict({{"a", 1}}), overwrite);
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(fs::exists(home + "/thesis.txt"));
}

TEST(Save, RefusesWhatOrbaxRefusesInItsWords) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "ckpt";
  const Array no_elements = *Array::Allocate(DType::kFloat32, {0, 3});
  EXPECT_EQ(Save(path, Tree::Dict({{"a", no_elements}})).status().message(),
            "Cannot save arrays with zero size: ParamInfo: "
            "[name=a,value_typestr=np.ndarray]");
  EXPECT_EQ(Save(path, Tree::Dict()).status().message(), "Found empty item.");
  EXPECT_EQ(Save(path, Tree::Dict({{"a", RandomArray(DType::kUint4, {2}, 1)}}))
                .status()
                .message(),
            "Error parsing object member \"dtype\": Unsupported data type: "
            "\"uint4\"");
  SaveOptions negative;
  negative.ocdbt_target_data_file_bytes = -1;
  EXPECT_EQ(Save(path, Tree::Dict({{"a", 1}}), negative).status().message(),
            "OCDBT target_data_file_size must be >= 0, where 0 means no limit; "
            "got -1");
  EXPECT_FALSE(fs::exists(path));
  EXPECT_FALSE(fs::exists(path + ".orbax-checkpoint-tmp"));
}

TEST(Save, CancelLeavesNothing) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "ckpt";
  std::atomic<bool> cancel{true};
  SaveOptions options;
  options.run.cancel = &cancel;
  EXPECT_EQ(Save(path, AllKindsTree(), options).status().code(),
            StatusCode::kCancelled);
  EXPECT_TRUE(fs::is_empty(fs::path(path).parent_path()));
}

TEST(Save, KeepsTheByteBudget) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "ckpt";
  SaveOptions options;
  options.run.threads = 4;
  options.run.memory_bytes = 3 << 20;
  options.chunk_bytes = 1 << 20;
  const Tree tree =
      Tree::Dict({{"w", RandomArray(DType::kFloat32, {16, 1 << 18}, 3)}});
  const auto saved = Save(path, tree, options);
  ASSERT_TRUE(saved.ok()) << saved.status().ToString();
  EXPECT_LE(saved->stats.memory_bytes_peak, 3u << 20);
  LoadOptions load_options;
  load_options.run = options.run;
  const auto loaded = Load(path, load_options);
  ASSERT_TRUE(loaded.ok());
  EXPECT_TRUE(loaded->tree == tree);
  EXPECT_LE(loaded->stats.memory_bytes_peak, 3u << 20);
}

// Returns the number of bytes that this process has asked the system to read so
// far.
uint64_t ReadByteCount() {
  std::ifstream io("/proc/self/io");
  std::string name;
  uint64_t value = 0;
  while (io >> name >> value) {
    if (name == "rchar:") return value;
  }
  return 0;
}

// A missing chunk means the fill value, unless a checksum shows that it
// existed.
TEST(Load, OfWhatGoesAwayMeanwhileIsNoTreeOfFillValues) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "ckpt";
  SaveOptions options;
  options.use_ocdbt = false;
  options.write_digests = false;
  options.chunk_bytes = 4 << 10;
  options.sync = false;
  const Array matrix = RandomArray(DType::kFloat32, {64, 64}, 9);
  ASSERT_TRUE(Save(path, Tree::Dict({{"w", matrix}}), options).ok());
  LoadOptions load;
  load.run.threads = 1;
  load.run.progress = [&](const Progress&) {
    if (fs::exists(path)) fs::rename(path, scratch / "elsewhere");
  };
  // A file found during opening no longer exists when it is read.
  const auto loaded = Load(path, load);
  EXPECT_EQ(loaded.status().code(), StatusCode::kNotFound)
      << loaded.status().ToString();
}

// Scales the default down by 16: 8 MiB chunks of a 1 GiB array.
TEST(ReadBox, ARowOfAChunkedMatrixReadsUnderOnePercent) {
  if (ReadByteCount() == 0) GTEST_SKIP() << "no /proc/self/io here";
  const ScratchDirectory scratch;
  const Array matrix = RandomArray(DType::kFloat32, {4096, 4096}, 9);
  for (const Compression compression :
       {Compression::kPlanes, Compression::kZstd, Compression::kFast,
        Compression::kNone}) {
    const std::string path =
        scratch / std::to_string(static_cast<int>(compression));
    SaveOptions options;
    options.compression = compression;
    options.chunk_bytes = 512 << 10;
    options.sync = false;
    ASSERT_TRUE(Save(path, Tree::Dict({{"w", matrix}}), options).ok());
    const auto checkpoint = Open(path);
    ASSERT_TRUE(checkpoint.ok());
    const uint64_t before = ReadByteCount();
    const auto row = (*checkpoint)->ReadBox(0, {77, 0}, {1, 4096});
    const uint64_t byte_count = ReadByteCount() - before;
    ASSERT_TRUE(row.ok()) << row.status().ToString();
    EXPECT_EQ(std::memcmp(row->view().data, matrix.view().data + 77 * 4096 * 4,
                          4096 * 4),
              0);
    EXPECT_LT(byte_count, matrix.byte_count() / 100);
    EXPECT_GT(byte_count, 0u);
  }
}

}  // namespace
}  // namespace holdfast
