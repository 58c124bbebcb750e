// Virtual files against what conversions write, byte for byte, in whole and in
// random ranges; what is refused; and a checkpoint that changes meanwhile.
#include "holdfast/tools/virtual_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "checkpoint/test_trees.h"
#include "holdfast/tools/convert.h"
#include "twins/file_bytes.h"
#include "twins/scratch_directory.h"
#include "virtual/file_tree.h"
#include "virtual/kept_blocks.h"
#include "virtual/leaf_bytes.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

std::string ReadWhole(const VirtualFiles& files, const std::string& name) {
  const auto entry = files.Stat(name);
  EXPECT_TRUE(entry.ok()) << entry.status().ToString();
  if (!entry.ok()) return "";
  std::string bytes(entry->byte_count, '?');
  const Status read = files.ReadInto(name, 0, bytes);
  EXPECT_TRUE(read.ok()) << read.ToString();
  return bytes;
}

// Names of all files below a directory, relative to it.
std::vector<std::string> NamesBelow(const VirtualFiles& files,
                                    const std::string& directory) {
  std::vector<std::string> names;
  const auto entries = files.List(directory);
  EXPECT_TRUE(entries.ok()) << entries.status().ToString();
  if (!entries.ok()) return names;
  for (const VirtualEntry& entry : *entries) {
    if (!entry.is_directory) {
      names.push_back(entry.name);
      continue;
    }
    for (const std::string& name :
         NamesBelow(files, directory + "/" + entry.name)) {
      names.push_back(entry.name + "/" + name);
    }
  }
  return names;
}

class VirtualFilesTest : public ::testing::Test {
 protected:
  std::string At(const std::string& name) const {
    return scratch_.path() + "/" + name;
  }

  std::string Saved(const Tree& tree, SaveOptions options = {}) {
    options.sync = false;
    const auto saved = Save(At("a"), tree, options);
    EXPECT_TRUE(saved.ok()) << saved.status().ToString();
    return At("a");
  }

  static Tree SomeTree() {
    Tree tree = AllKindsTree();
    tree.Add("edge", Tree(RandomArray(DType::kFloat32, {1027, 2200}, 1)));
    tree.Add("deep", Tree(RandomArray(DType::kInt16, {3, 1, 70, 5}, 2)));
    return tree;
  }

  std::string Converted(const std::string& name,
                        const ConvertOptions& options) {
    const auto done = Convert(At("a"), At(name), options);
    EXPECT_TRUE(done.ok()) << done.status().ToString();
    return At(name);
  }

  ScratchDirectory scratch_;
};

TEST_F(VirtualFilesTest, FilesOfOneFormatAreThoseOfAConversion) {
  Saved(SomeTree());
  const auto files = VirtualFiles::Open(At("a")).value();
  ConvertOptions options;
  options.format = Format::kSafetensors;
  EXPECT_EQ(ReadWhole(*files, "as/safetensors/model.safetensors"),
            BytesOf(Converted("m.safetensors", options)));
  options.format = Format::kNpz;
  EXPECT_EQ(ReadWhole(*files, "as/npz/arrays.npz"),
            BytesOf(Converted("m.npz", options)));
}

TEST_F(VirtualFilesTest, ZarrArraysAreThoseOfAConversion) {
  Saved(SomeTree());
  const auto files = VirtualFiles::Open(At("a")).value();
  ConvertOptions options;
  options.zarr_format = 2;
  options.use_ocdbt = false;
  options.compression = Compression::kNone;
  const std::string target = Converted("z", options);
  int compared_count = 0;
  for (const std::string& name : NamesBelow(*files, "as/zarr")) {
    const std::string last = fs::path(name).filename();
    if (last == ".zgroup" || last == ".zattrs" || last == ".zmetadata") {
      continue;
    }
    // A chunk of nothing but fill values need not be in the conversion.
    ASSERT_TRUE(fs::exists(target + "/" + name)) << name;
    EXPECT_EQ(ReadWhole(*files, "as/zarr/" + name),
              BytesOf(target + "/" + name))
        << name;
    ++compared_count;
  }
  int written_count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(target)) {
    const std::string parent = entry.path().parent_path();
    written_count += entry.is_regular_file() && parent != target &&
                     parent != target + "/array_metadatas";
  }
  EXPECT_EQ(compared_count, written_count);
}

TEST_F(VirtualFilesTest, RangesAreThoseOfTheWhole) {
  Saved(SomeTree());
  VirtualFilesOptions options;
  options.kept_bytes_max = 256 << 10;  // so that blocks are small, and go
  const auto files = VirtualFiles::Open(At("a"), options).value();
  const auto twin = VirtualFiles::Open(At("a")).value();
  std::mt19937_64 random(7);
  for (const std::string name :
       {"as/safetensors/model.safetensors", "as/npz/arrays.npz",
        "as/zarr/edge/0.0", "files/_METADATA"}) {
    const std::string whole = ReadWhole(*twin, name);
    for (int i = 0; i < 60; ++i) {
      const uint64_t offset = random() % (whole.size() + 1);
      const uint64_t count =
          std::min<uint64_t>(random() % 70000, whole.size() - offset);
      std::string part(count, '?');
      ASSERT_TRUE(files->ReadInto(name, offset, part).ok());
      ASSERT_EQ(part, whole.substr(offset, count)) << name << " " << offset;
    }
    std::string beyond(2, '?');
    EXPECT_EQ(files->ReadInto(name, whole.size() - 1, beyond).code(),
              StatusCode::kOutOfRange);
  }
}

TEST_F(VirtualFilesTest, ManyReadersSeeTheSameBytes) {
  Saved(SomeTree());
  VirtualFilesOptions options;
  options.kept_bytes_max = 64 << 10;
  const auto files = VirtualFiles::Open(At("a"), options).value();
  const std::string name = "as/npz/arrays.npz";
  const std::string whole =
      ReadWhole(*VirtualFiles::Open(At("a")).value(), name);
  std::atomic<int> wrong_count{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&, i] {
      std::string part(100'000, '?');
      // Parts that lie apart: each makes its blocks anew, which takes long
      // under sanitizers.
      for (size_t at = i * 777; at + part.size() < whole.size();
           at += 40 * part.size()) {
        const Status read = files->ReadInto(name, at, part);
        if (!read.ok() || part != whole.substr(at, part.size())) ++wrong_count;
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong_count, 0);
}

TEST_F(VirtualFilesTest, StoredFilesAreThoseOfTheDirectory) {
  Saved(SomeTree());
  std::ofstream(At("secret")) << "secret";
  fs::create_symlink(At("secret"), At("a/link"));
  const auto files = VirtualFiles::Open(At("a")).value();
  EXPECT_EQ(ReadWhole(*files, "files/_METADATA"), BytesOf(At("a/_METADATA")));
  EXPECT_EQ(files->Stat("files/link").status().code(), StatusCode::kNotFound);
  for (const std::string name :
       {"files/../secret", "files/./_METADATA", "files//_METADATA", "../secret",
        "/", "as/safetensors/../../secret", "files/_METADATA/",
        "as/zarr/edge/9.9", "as/zarr/edge/-1.0", "as/zarr/edge/0.0.0",
        "as/none/x"}) {
    EXPECT_EQ(files->Stat(name).status().code(), StatusCode::kNotFound) << name;
  }
}

TEST_F(VirtualFilesTest, AnotherCheckpointInItsPlaceIsNoticed) {
  Saved(SomeTree());
  const auto files = VirtualFiles::Open(At("a")).value();
  const std::string tag = files->Tag("as/npz/arrays.npz");
  EXPECT_NE(tag, files->Tag("as/npz/arrays"));
  EXPECT_TRUE(files->IsCurrent());
  SaveOptions options;
  options.overwrite = true;
  Tree other = SomeTree();
  other.Add("more", Tree(RandomArray(DType::kInt8, {9}, 3)));
  Saved(other, options);
  EXPECT_FALSE(files->IsCurrent());
  std::string part(8, '?');
  EXPECT_FALSE(files->ReadInto("as/zarr/edge/0.0", 0, part).ok());
  EXPECT_FALSE(files->ReadInto("files/_METADATA", 0, part).ok());
  EXPECT_NE(VirtualFiles::Open(At("a")).value()->Tag("as/npz/arrays.npz"), tag);
}

// Damage is an error of the read, never other bytes.
TEST_F(VirtualFilesTest, DamageIsAnError) {
  SaveOptions options;
  options.use_ocdbt = false;
  options.compression = Compression::kNone;
  Saved(SomeTree(), options);
  const auto files = VirtualFiles::Open(At("a")).value();
  {
    std::fstream chunk(At("a/edge/0.0"),
                       std::ios::in | std::ios::out | std::ios::binary);
    chunk.seekp(1000);
    chunk.put('\x55');
  }
  std::string part(4, '?');
  EXPECT_EQ(files->ReadInto("as/zarr/edge/0.0", 0, part).code(),
            StatusCode::kDataLoss);
}

TEST(CutLeafTest, BlocksCoverTheLeafInWholeChunks) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 2000; ++i) {
    Shape shape(1 + random() % 4);
    Shape chunks(shape.size());
    for (size_t d = 0; d < shape.size(); ++d) {
      shape[d] = 1 + random() % 20;
      chunks[d] = 1 + random() % 25;
    }
    const size_t element_bytes = size_t{1} << random() % 4;
    const uint64_t bytes_max = 1 + random() % 3000;
    const uint64_t target = 1 + random() % bytes_max;
    const LeafBlocks cut =
        CutLeaf(shape, chunks, element_bytes, target, bytes_max);
    ASSERT_GE(cut.row_count, 1);
    ASSERT_LE(cut.block_bytes(), std::max<uint64_t>(bytes_max, element_bytes));
    ASSERT_EQ(cut.axis_bytes, cut.row_bytes * shape[cut.axis]);
    ASSERT_GE(cut.blocks_per_axis * cut.row_count, shape[cut.axis]);
    ASSERT_LT((cut.blocks_per_axis - 1) * cut.row_count, shape[cut.axis]);
    const int64_t rows = std::min(chunks[cut.axis], shape[cut.axis]);
    if (rows * cut.row_bytes <= bytes_max) {
      ASSERT_TRUE(cut.row_count % rows == 0 ||
                  cut.row_count == shape[cut.axis]);
    }
  }
}

TEST(KeptBlocksTest, MakesABlockOnceAndForgetsTheOldest) {
  KeptBlocks blocks(3000);
  int made_count = 0;
  const auto get = [&](uint64_t block) {
    return blocks.Get({0, block}, 1000, [&](Buffer& buffer) {
      ++made_count;
      buffer.data()[0] = static_cast<char>('a' + block);
      return Status();
    });
  };
  EXPECT_EQ((*get(0).value()).data()[0], 'a');
  get(1).value();
  get(0).value();
  EXPECT_EQ(made_count, 2);
  get(2).value();  // 1 goes, which was used longest ago
  get(0).value();
  EXPECT_EQ(made_count, 3);
  get(1).value();
  EXPECT_EQ(made_count, 4);
  EXPECT_LE(blocks.kept_bytes(), 3000u);
  const auto failed = blocks.Get(
      {0, 9}, 1000, [](Buffer&) { return UnavailableError("later"); });
  EXPECT_THAT(failed.status().ToString(), HasSubstr("later"));
  EXPECT_EQ((*get(9).value()).data()[0], 'j');
}

}  // namespace
}  // namespace holdfast
