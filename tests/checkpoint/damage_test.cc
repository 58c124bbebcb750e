// Small checkpoints, damaged in every way that affects one place: each byte of
// each file changed, files truncated, extended and deleted. Verify must report
// the damage, unless nothing that Load returns depends on it. Load itself must
// fail or return the saved values.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/test_trees.h"
#include "holdfast/tools/view.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

struct Layout {
  const char* name;
  int zarr_format;
  bool use_ocdbt;
  Compression compression;
  // A view by links with checksums; bits are flipped in the linked file too.
  bool is_view = false;
};

// Returns a small tree. `loose` has more than 1024 bytes (with planes, more
// than 4 KiB), so that OCDBT does not store it inline.
Tree SmallTree(Compression compression) {
  const int64_t columns = compression == Compression::kPlanes ? 61 : 17;
  return Tree::Dict({
      {"bias", Tree::JaxArray(RandomArray(DType::kBfloat16, {5}, 1))},
      {"empty", Tree::Dict()},
      {"loose", Tree(RandomArray(DType::kFloat32, {17, columns}, 2))},
      {"step", Tree(7)},
      {"text", Tree("hello")},
  });
}

RunOptions OneThread() {
  RunOptions run;
  run.threads = 1;
  return run;
}

LoadOptions LoadOnOneThread() {
  LoadOptions options;
  options.run = OneThread();
  return options;
}

// Counts the attempted damages.
struct Tally {
  int reported = 0;
  int irrelevant = 0;
  int silently_wrong = 0;
  int load_refused = 0;
  int load_same = 0;
  int load_wrong = 0;
  std::map<std::string, int> irrelevant_by_file;
};

class DamagedFiles : public testing::TestWithParam<Layout> {
 protected:
  void SetUp() override {
    SaveOptions options;
    options.zarr_format = GetParam().zarr_format;
    options.use_ocdbt = GetParam().use_ocdbt;
    options.compression = GetParam().compression;
    options.sync = false;  // does not change the files
    const std::string saved_path = GetParam().is_view ? source_ : path_;
    const auto saved = Save(saved_path, tree_, options);
    ASSERT_TRUE(saved.ok()) << saved.status().ToString();
    if (GetParam().is_view) MakeView();
    for (const auto& entry : fs::recursive_directory_iterator(path_)) {
      if (!entry.is_regular_file()) continue;
      const std::string name = fs::relative(entry.path(), path_).string();
      files_[name] = ReadTestFile(entry.path());
    }
    ASSERT_GE(files_.size(), 8u);
    digests_ = DigestsOfLeaves();
    ASSERT_EQ(digests_.size(), 5u);
  }

  void MakeView() {
    ViewOptions options;
    options.run = OneThread();
    options.zarr_format = GetParam().zarr_format;
    options.link = LinkKind::kHard;
    options.checksums = true;
    options.sync = false;
    const auto view = View(source_, path_, options);
    ASSERT_TRUE(view.ok()) << view.status().ToString();
    ASSERT_EQ(view->referred_leaf_count, 1u);
  }

  void TearDown() override {
    if (tally_.reported == 0) return;
    std::printf("%s: reported %d, irrelevant %d, silently wrong %d; ",
                GetParam().name, tally_.reported, tally_.irrelevant,
                tally_.silently_wrong);
    std::printf("Load alone: refused %d, same %d, wrong %d\n",
                tally_.load_refused, tally_.load_same, tally_.load_wrong);
    for (const auto& [file, count] : tally_.irrelevant_by_file) {
      std::printf("  irrelevant in %s: %d\n", file.c_str(), count);
    }
    EXPECT_EQ(tally_.silently_wrong, 0);
  }

  std::string PathOf(const std::string& file) const {
    return path_ + "/" + file;
  }

  void Restore(const std::string& file) {
    WriteTestFile(PathOf(file), files_.at(file));
  }

  // Changes one byte in place, so that the file keeps its length.
  void SetByte(const std::string& file, size_t offset, char value) {
    std::fstream out(PathOf(file),
                     std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(static_cast<std::streamoff>(offset));
    out.put(value);
    ASSERT_TRUE(out.good()) << file;
  }

  bool LoadsTheSame() {
    const auto loaded = Load(path_, LoadOnOneThread());
    return loaded.ok() && loaded->tree == tree_;
  }

  // Counts what Verify says of the checkpoint, which is damaged in `file`.
  void Judge(const std::string& file, const std::string& how) {
    const auto report = Verify(path_, {}, OneThread());
    if (!report.ok() || !report->damages.empty()) {
      ++tally_.reported;
      return;
    }
    if (LoadsTheSame()) {
      ++tally_.irrelevant;
      ++tally_.irrelevant_by_file[file];
      return;
    }
    ++tally_.silently_wrong;
    const auto loaded = Load(path_, LoadOnOneThread());
    ADD_FAILURE() << "Verify is content with " << file << " " << how
                  << ", but Load gives "
                  << (loaded.ok() ? "another tree"
                                  : loaded.status().ToString());
  }

  // Counts what Load returns without a call to Verify first.
  void JudgeLoad(const std::string& file, const std::string& how) {
    const auto loaded = Load(path_, LoadOnOneThread());
    if (!loaded.ok()) {
      ++tally_.load_refused;
    } else if (loaded->tree == tree_) {
      ++tally_.load_same;
    } else {
      ++tally_.load_wrong;
      ADD_FAILURE() << "Load gives other values: " << file << " " << how;
    }
  }

  // Returns DigestLeaf's result for each leaf, "" for an unreadable leaf.
  std::vector<std::string> DigestsOfLeaves() {
    const auto checkpoint = Open(path_);
    if (!checkpoint.ok()) return {};
    std::vector<std::string> digests;
    for (size_t i = 0; i < (*checkpoint)->leaves().size(); ++i) {
      const auto digest = DigestLeaf(**checkpoint, i);
      digests.push_back((*checkpoint)->leaves()[i].name + " " +
                        (digest.ok() ? *digest : ""));
    }
    return digests;
  }

  // Reads leaf by leaf, as slices, `cat` and `digest` do.
  void JudgeLeaves(const std::string& file, const std::string& how) {
    for (const std::string& digest : DigestsOfLeaves()) {
      const bool is_error = digest.ends_with(' ');
      const bool is_right =
          std::find(digests_.begin(), digests_.end(), digest) != digests_.end();
      EXPECT_TRUE(is_error || is_right) << digest << ": " << file << " " << how;
    }
  }

  const ScratchDirectory scratch_;
  const std::string path_ = scratch_ / "checkpoint";
  const std::string source_ = scratch_ / "source";
  const Tree tree_ = SmallTree(GetParam().compression);
  std::vector<std::string> digests_;
  std::map<std::string, std::string> files_;  // by relative path
  Tally tally_;
};

TEST_P(DamagedFiles, UndamagedIsClean) {
  const auto report = Verify(path_, {}, OneThread());
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_TRUE(report->damages.empty());
  EXPECT_TRUE(LoadsTheSame());
}

TEST_P(DamagedFiles, EveryChangedByteIsReportedOrIrrelevant) {
  for (const auto& [file, content] : files_) {
    for (size_t i = 0; i < content.size(); ++i) {
      for (const int mask : {0x01, 0x80}) {
        SetByte(file, i, static_cast<char>(content[i] ^ mask));
        const std::string how =
            "byte " + std::to_string(i) + " xor " + std::to_string(mask);
        Judge(file, how);
        if (mask == 0x01) JudgeLoad(file, how);
        if (mask == 0x80) JudgeLeaves(file, how);
      }
      SetByte(file, i, content[i]);
    }
    EXPECT_TRUE(LoadsTheSame()) << file << " was not put back";
  }
}

TEST_P(DamagedFiles, EveryTruncatedFileIsReported) {
  for (const auto& [file, content] : files_) {
    const size_t size = content.size();
    for (const size_t cut : {size_t{0}, size_t{1}, size / 2, size - 1}) {
      if (cut >= size) continue;
      fs::resize_file(PathOf(file), cut);
      Judge(file, "cut to " + std::to_string(cut) + " bytes");
      JudgeLoad(file, "cut to " + std::to_string(cut) + " bytes");
      Restore(file);
    }
  }
  EXPECT_EQ(tally_.irrelevant, 0);
}

TEST_P(DamagedFiles, EveryLengthenedFileIsReported) {
  for (const auto& [file, content] : files_) {
    WriteTestFile(PathOf(file), content + "x");
    Judge(file, "with a byte appended");
    JudgeLoad(file, "with a byte appended");
    Restore(file);
  }
  // Bytes after the last value of a data file are not referenced.
  for (const auto& [file, count] : tally_.irrelevant_by_file) {
    EXPECT_NE(file.find("d/"), std::string::npos) << file;
  }
}

TEST_P(DamagedFiles, EveryDeletedFileIsReported) {
  for (const auto& [file, content] : files_) {
    fs::remove(PathOf(file));
    Judge(file, "deleted");
    JudgeLoad(file, "deleted");
    Restore(file);
  }
  // Even the checksum file is missed: the marker records that it existed.
  EXPECT_EQ(tally_.irrelevant, 0);
}

// A row of a value of many blocks: refused if its block is damaged, correct
// otherwise; and only its block is read.
TEST(DamageOfSlices, ARowIsCheckedByItsBlock) {
  constexpr int64_t kRows = 256;
  constexpr int64_t kColumns = 1024;  // 4 KiB a row
  constexpr uint64_t kRowBytes = 4096;
  const ScratchDirectory scratch;
  const std::string path = scratch / "checkpoint";
  const Array array = RandomArray(DType::kFloat32, {kRows, kColumns}, 3);
  SaveOptions options;
  options.compression = Compression::kNone;
  options.use_ocdbt = false;
  options.sync = false;
  ASSERT_TRUE(Save(path, Tree::Dict({{"w", Tree(array)}}), options).ok());
  const std::string file = path + "/w/0.0";
  const std::string content = ReadTestFile(file);
  ASSERT_EQ(content.size(), kRows * kRowBytes);
  constexpr uint64_t kBlockBytes = 64 << 10;
  for (const uint64_t flipped : {uint64_t{0}, kBlockBytes - 1, kBlockBytes,
                                 5 * kBlockBytes + 77, content.size() - 1}) {
    std::string damaged = content;
    damaged[flipped] ^= 0x10;
    WriteTestFile(file, damaged);
    const auto checkpoint = Open(path);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().ToString();
    for (int64_t row = 0; row < kRows; ++row) {
      const auto read = (*checkpoint)->ReadBox(0, {row, 0}, {1, kColumns});
      const bool is_near =
          row * kRowBytes / kBlockBytes == flipped / kBlockBytes;
      ASSERT_EQ(read.status().code(),
                is_near ? StatusCode::kDataLoss : StatusCode::kOk)
          << flipped << " " << row;
      if (is_near) continue;
      EXPECT_EQ(std::string_view(read->view().data, kRowBytes),
                std::string_view(content).substr(row * kRowBytes, kRowBytes));
    }
  }
}

// Two arrays that are close together in a file are read in one request, with
// the gap between them. Damage in the gap does not affect them.
TEST(DamageOfSlices, DamageBetweenTwoArraysIsNotTheirs) {
  for (const Compression compression :
       {Compression::kNone, Compression::kZstd}) {
    const ScratchDirectory scratch;
    const std::string path = scratch / "checkpoint";
    SaveOptions options;
    options.compression = compression;
    options.sync = false;
    const Array a = RandomArray(DType::kFloat32, {500}, 1);
    const Array c = RandomArray(DType::kFloat32, {500}, 3);
    ASSERT_TRUE(
        Save(path,
             Tree::Dict({{"a", Tree(a)},
                         {"b", Tree(RandomArray(DType::kFloat32, {500}, 2))},
                         {"c", Tree(c)}}),
             options)
            .ok());
    const fs::path file =
        fs::directory_iterator(path + "/ocdbt.process_0/d")->path();
    std::string content = ReadTestFile(file);
    content[3000] ^= 1;  // in b: each array takes 2000 bytes
    WriteTestFile(file, content);
    LoadOptions load;
    load.names = {"a", "c"};
    const auto loaded = Load(path, load);
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    for (const auto& [name, want] : {std::pair("a", a), std::pair("c", c)}) {
      const Array& got = loaded->tree.Find(name)->array();
      EXPECT_EQ(std::string_view(got.view().data, got.byte_count()),
                std::string_view(want.view().data, want.byte_count()));
    }
    const Status all = Load(path).status();
    EXPECT_EQ(all.code(), StatusCode::kDataLoss);
    EXPECT_NE(all.ToString().find("leaf b"), std::string::npos)
        << all.ToString();
  }
}

// Replaces a chunk by another save's or another array's, which is valid by
// itself.
TEST(DamageOfSlices, AnothersChunkIsNotTakenForOurs) {
  for (const Compression compression :
       {Compression::kPlanes, Compression::kZstd, Compression::kFast,
        Compression::kNone}) {
    const ScratchDirectory scratch;
    const std::string path = scratch / "checkpoint";
    SaveOptions options;
    options.compression = compression;
    options.use_ocdbt = false;
    options.sync = false;
    options.overwrite = true;
    const auto tree = [](int seed) {
      return Tree::Dict(
          {{"a", Tree(RandomArray(DType::kFloat32, {300, 300}, seed))},
           {"b", Tree(RandomArray(DType::kFloat32, {300, 300}, seed + 1))},
           {"s", Tree(RandomArray(DType::kFloat32, {30}, seed + 2))}});
    };
    ASSERT_TRUE(Save(path, tree(1), options).ok());
    std::map<std::string, std::string> stale;
    for (const char* name : {"/a/0.0", "/s/0"}) {
      stale[name] = ReadTestFile(path + name);
    }
    ASSERT_TRUE(Save(path, tree(7), options).ok());
    const std::string good_a = ReadTestFile(path + "/a/0.0");
    const std::string good_s = ReadTestFile(path + "/s/0");
    const auto expect_refused = [&](size_t leaf, const char* what) {
      EXPECT_EQ(Load(path).status().code(), StatusCode::kDataLoss) << what;
      const auto checkpoint = Open(path);
      ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().ToString();
      EXPECT_EQ((*checkpoint)->Read(leaf).status().code(),
                StatusCode::kDataLoss)
          << what;
      const auto report = Verify(path);
      ASSERT_TRUE(report.ok());
      EXPECT_FALSE(report->damages.empty()) << what;
    };
    WriteTestFile(path + "/a/0.0", stale["/a/0.0"]);
    expect_refused(0, "a stale chunk");
    WriteTestFile(path + "/a/0.0", ReadTestFile(path + "/b/0.0"));
    expect_refused(0, "a duplicated chunk");
    WriteTestFile(path + "/a/0.0", good_a);
    WriteTestFile(path + "/s/0", stale["/s/0"]);
    expect_refused(2, "a small stale chunk");
    WriteTestFile(path + "/s/0", good_s);
    fs::remove(path + "/a/0.0");
    expect_refused(0, "a chunk that is gone");
  }
}

// Replaces the nodes by those of an older save of the same tree, which are in
// the same places and have valid checksums.
TEST(DamageOfSlices, StaleNodesAndManifestsAreNotTakenForOurs) {
  const ScratchDirectory scratch;
  SaveOptions options;
  options.sync = false;
  const auto save = [&](const std::string& path, int step) {
    return Save(path, Tree::Dict({{"step", Tree(step)}, {"lr", Tree(0.5)}}),
                options)
        .ok();
  };
  const std::string old_path = scratch / "old";
  const std::string path = scratch / "new";
  ASSERT_TRUE(save(old_path, 1000) && save(path, 2000));
  const auto node_file = [](const std::string& root) {
    return fs::directory_iterator(root + "/d")->path().string();
  };
  const std::string good = ReadTestFile(node_file(path));
  WriteTestFile(node_file(path), ReadTestFile(node_file(old_path)));
  EXPECT_EQ(Load(path).status().code(), StatusCode::kDataLoss);
  EXPECT_FALSE(Verify(path)->damages.empty());
  WriteTestFile(node_file(path), good);
  ASSERT_TRUE(Load(path).ok());
  // Replaces the manifest too, with the node that it refers to.
  fs::copy(node_file(old_path), path + "/d/", fs::copy_options::skip_existing);
  const std::string manifest = ReadTestFile(old_path + "/manifest.ocdbt");
  WriteTestFile(path + "/manifest.ocdbt", manifest);
  EXPECT_EQ(Load(path).status().code(), StatusCode::kDataLoss);
  EXPECT_FALSE(Verify(path)->damages.empty());
}

// The checksums are in the item's directory, above the array that is opened.
TEST_P(DamagedFiles, ArrayOpenedByItselfIsChecked) {
  if (GetParam().use_ocdbt) return;
  const std::string chunk = "loose/c/0/0";
  ASSERT_TRUE(files_.contains(chunk));
  ASSERT_TRUE(Load(PathOf("loose"), LoadOnOneThread()).ok());
  SetByte(
      chunk, files_.at(chunk).size() - 40,
      static_cast<char>(files_.at(chunk)[files_.at(chunk).size() - 40] ^ 1));
  EXPECT_EQ(Load(PathOf("loose"), LoadOnOneThread()).status().code(),
            StatusCode::kDataLoss);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, DamagedFiles,
    testing::Values(
        Layout{"OcdbtZarr2Zstd", 2, true, Compression::kZstd},
        Layout{"OcdbtZarr2Raw", 2, true, Compression::kNone},
        Layout{"ViewZarr3", 3, true, Compression::kNone, true},
        Layout{"OcdbtZarr2Planes", 2, true, Compression::kPlanes},
        Layout{"DirectoriesZarr3Planes", 3, false, Compression::kPlanes},
        Layout{"DirectoriesZarr3Fast", 3, false, Compression::kFast}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace holdfast
