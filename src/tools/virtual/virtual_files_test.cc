// Compares virtual files with the output of conversions, byte for byte,
// completely and in random ranges. Also tests refusals, and a checkpoint that
// changes while it is read.
#include "holdfast/tools/virtual_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "checkpoint/test_trees.h"
#include "holdfast/tools/convert.h"
#include "tools/virtual/file_tree.h"
#include "tools/virtual/kept_blocks.h"
#include "tools/virtual/leaf_bytes.h"
#include "twins/file_bytes.h"
#include "twins/scratch_directory.h"

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

// Returns the names of all files below a directory, relative to it.
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
    // The conversion may omit a chunk that has only fill values.
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
  options.kept_bytes_max = 256 << 10;  // so that blocks are small, and evicted
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
      // Read parts with gaps between them: each part makes its blocks again,
      // which takes long under sanitizers.
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

// Damage makes a read fail. It never returns wrong bytes.
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

// Inverts a byte of a file, and keeps the file's time.
void FlipByte(const std::string& path, uint64_t offset) {
  const auto time = fs::last_write_time(path);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(~byte));
  }
  fs::last_write_time(path, time);
}

// However a checkpoint was saved, no wrong byte of its own files is returned,
// whether they are read completely or in parts, the first time or later.
TEST_F(VirtualFilesTest, StoredBytesAreThoseThatWereSaved) {
  SaveOptions raw;
  raw.compression = Compression::kNone;
  SaveOptions directories = raw;
  directories.use_ocdbt = false;
  SaveOptions composite;
  composite.format = Format::kOrbaxV1;
  SaveOptions also = raw;
  also.also = AlsoSafetensors();
  Tree tree = Tree::Dict();
  tree.Add("w", Tree(RandomArray(DType::kFloat32, {300, 400}, 1)));
  tree.Add("b", Tree(RandomArray(DType::kInt16, {70}, 2)));
  std::mt19937_64 random(5);
  for (SaveOptions options :
       {SaveOptions(), raw, directories, composite, also}) {
    options.overwrite = true;
    Saved(tree, options);
    const auto files = VirtualFiles::Open(At("a")).value();
    for (const std::string& name : NamesBelow(*files, "files")) {
      SCOPED_TRACE(name);
      const std::string stored = "files/" + name;
      const std::string good = BytesOf(At("a/" + name));
      ASSERT_EQ(ReadWhole(*files, stored), good);
      for (int i = 0; i < 8 && !good.empty(); ++i) {
        const uint64_t at = i == 0   ? 0
                            : i == 1 ? good.size() - 1
                                     : random() % good.size();
        FlipByte(At("a/" + name), at);
        std::string bytes(good.size(), '?');
        EXPECT_EQ(files->ReadInto(stored, 0, bytes).code(),
                  StatusCode::kDataLoss)
            << at;
        std::string byte(1, '?');
        EXPECT_EQ(files->ReadInto(stored, at, byte).code(),
                  StatusCode::kDataLoss)
            << at;
        FlipByte(At("a/" + name), at);
        ASSERT_TRUE(files->ReadInto(stored, at, byte).ok());
        ASSERT_EQ(byte[0], good[at]);
      }
    }
  }
}

// Some formats have their own checksums instead of a list.
TEST_F(VirtualFilesTest, StoredFilesWithoutAListAreVerified) {
  Saved(SomeTree());
  ConvertOptions options;
  options.format = Format::kNpz;
  const std::string path = Converted("m.npz", options);
  const auto files = VirtualFiles::Open(path).value();
  const std::string good = BytesOf(path);
  EXPECT_EQ(ReadWhole(*files, "files/m.npz"), good);
  std::string byte(1, '?');
  FlipByte(path, good.size() / 2);
  EXPECT_EQ(files->ReadInto("files/m.npz", good.size() / 2, byte).code(),
            StatusCode::kDataLoss);
  const auto again = VirtualFiles::Open(path).value();
  EXPECT_EQ(again->ReadInto("files/m.npz", 0, byte).code(),
            StatusCode::kDataLoss);
}

TEST_F(VirtualFilesTest, AStoredFileThatIsGoneOrCutIsDamage) {
  SaveOptions options;
  options.use_ocdbt = false;
  Saved(SomeTree(), options);
  fs::remove(At("a/edge/0.0"));
  fs::resize_file(At("a/deep/0.0.0.0"), 0);
  const auto files = VirtualFiles::Open(At("a")).value();
  EXPECT_EQ(files->Stat("files/edge/0.0").status().code(),
            StatusCode::kDataLoss);
  EXPECT_EQ(files->Stat("files/deep/0.0.0.0").status().code(),
            StatusCode::kDataLoss);
  EXPECT_EQ(files->List("files/edge").status().code(), StatusCode::kDataLoss);
  EXPECT_TRUE(files->List("files/deep").ok());
}

// Bytes that are kept in memory belong to the earlier checkpoint.
TEST_F(VirtualFilesTest, KeptBytesOfAReplacedCheckpointAreNotGiven) {
  const auto save = [&](float value) {
    SaveOptions options;
    options.overwrite = true;
    Tree tree = Tree::Dict();
    tree.Add("w", Tree(Array::FromBytes(DType::kFloat32, {1}, &value)));
    Saved(tree, options);
  };
  save(1);
  const auto files = VirtualFiles::Open(At("a")).value();
  ReadWhole(*files, "as/npz/arrays.npz");
  EXPECT_FALSE(files->IsChanged());
  save(2);
  std::string part(8, '?');
  EXPECT_EQ(files->ReadInto("as/npz/arrays.npz", 0, part).code(),
            StatusCode::kDataLoss);
  EXPECT_EQ(files->Stat("as/npz/arrays.npz").status().code(),
            StatusCode::kDataLoss);
  EXPECT_TRUE(files->IsChanged());
}

TEST_F(VirtualFilesTest, LinksToDirectoriesAndToNowhereAreLeftOut) {
  Saved(SomeTree());
  fs::create_directory_symlink(scratch_.path(), At("a/notes"));
  fs::create_symlink(At("nowhere"), At("a/dangling"));
  const auto files = VirtualFiles::Open(At("a"));
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  EXPECT_EQ((*files)->Stat("files/notes").status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ((*files)->Stat("files/dangling").status().code(),
            StatusCode::kNotFound);
  EXPECT_TRUE((*files)->Stat("files/_METADATA").ok());
}

TEST_F(VirtualFilesTest, NamesOfLeavesLeadNowhere) {
  const std::vector<std::string> names = {
      "../../evil",           "..",  ".",       "/abs",    "x//y", "x/",
      "back\\slash",          "%5C", ".zarray", ".zgroup", "_",    ".._",
      std::string("n\0l", 3), "%00", "plain",   "../..__"};
  Tree tree = Tree::Dict();
  for (size_t i = 0; i < names.size(); ++i) {
    tree.Add(names[i], Tree(RandomArray(DType::kInt8, {3}, i)));
  }
  Saved(tree);
  const auto files = VirtualFiles::Open(At("a")).value();
  std::set<std::string> arrays;
  for (const std::string& name : NamesBelow(*files, "as/zarr")) {
    EXPECT_TRUE(StaysInside(name)) << name;
    EXPECT_EQ(name.find('\\'), std::string::npos) << name;
    if (name.ends_with("/.zarray")) arrays.insert(name);
  }
  EXPECT_EQ(arrays.size(), names.size());
  EXPECT_EQ(ReadWhole(*files, "as/zarr/.._/.._/evil/0").size(), 3u);
  EXPECT_THAT(ReadWhole(*files, "as/zarr/.zmetadata"),
              HasSubstr("\"%255C/.zarray\""));
  // Programs unpack an archive under its members' names, so such names are
  // refused.
  EXPECT_EQ(files->Stat("as/npz/arrays.npz").status().code(),
            StatusCode::kInvalidArgument);
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
  get(2).value();  // evicts 1, the least recently used
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
