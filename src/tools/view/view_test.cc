// Tests views: which leaves are referred to and which are copied, links,
// sources that change, and that nothing is written to the source.
#include "holdfast/tools/view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "checkpoint/leaf_lines.h"
#include "checkpoint/test_trees.h"
#include "holdfast/tools/convert.h"
#include "stores/place/file_set.h"
#include "twins/file_bytes.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Returns the bytes and time of a file, or of every file below a directory, as
// text.
std::string StateOf(const std::string& path) {
  std::vector<std::string> lines;
  const auto add = [&](const fs::path& file) {
    lines.push_back(
        file.string() + " " +
        std::to_string(fs::last_write_time(file).time_since_epoch().count()) +
        " " + BytesOf(file));
  };
  if (fs::is_regular_file(path)) add(path);
  if (fs::is_directory(path)) {
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      if (entry.is_regular_file()) add(entry.path());
    }
  }
  std::sort(lines.begin(), lines.end());
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  return all;
}

Tree SomeTree() {
  return Tree::Dict({{"a", Tree(RandomArray(DType::kFloat32, {60, 100}, 1))},
                     {"b", Tree(RandomArray(DType::kBfloat16, {7, 11, 3}, 2))},
                     {"c", Tree(RandomArray(DType::kInt64, {2000}, 3))},
                     {"d", Tree(RandomArray(DType::kUint8, {40, 40}, 4))}});
}

class ViewTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const {
    return directory_.path() + "/" + name;
  }

  // Saves SomeTree in a format.
  std::string Source(Format format, const std::string& name,
                     uint64_t shard_bytes = 0) {
    SaveOptions save;
    save.compression = Compression::kNone;
    EXPECT_TRUE(Save(Path("saved"), SomeTree(), save).ok());
    if (format == Format::kOrbax) return Path("saved");
    ConvertOptions options;
    options.format = format;
    options.shard_bytes_max = shard_bytes;
    const auto converted = Convert(Path("saved"), Path(name), options);
    EXPECT_TRUE(converted.ok()) << converted.status().ToString();
    return Path(name);
  }

  ScratchDirectory directory_;
};

TEST_F(ViewTest, EveryFormatIsReferredTo) {
  for (const auto& [format, name] : std::vector<std::pair<Format, std::string>>{
           {Format::kSafetensors, "model"},
           {Format::kNpz, "model.npz"},
           {Format::kDcp, "dcp"},
           {Format::kTorchDist, "torch_dist"},
           {Format::kMegatronZarr, "megatron"},
           {Format::kOrbax, "saved"}}) {
    for (const int zarr_format : {2, 3}) {
      SCOPED_TRACE(std::string(FormatName(format)) + " zarr " +
                   std::to_string(zarr_format));
      fs::remove_all(directory_.path());
      fs::create_directory(directory_.path());
      const bool has_shards =
          format != Format::kNpz && format != Format::kMegatronZarr;
      const std::string source = Source(format, name, has_shards ? 20000 : 0);
      const std::vector<std::string> want = LinesOf(source);
      const std::string before = StateOf(source);
      ViewOptions options;
      options.zarr_format = zarr_format;
      const auto view = View(source, Path("view"), options);
      ASSERT_TRUE(view.ok()) << view.status().ToString();
      // Orbax stores a small value in the database itself, so it is copied.
      const size_t copied_count = format == Format::kOrbax ? 1 : 0;
      EXPECT_EQ(view->copied.size(), copied_count);
      EXPECT_EQ(view->referred_leaf_count, 4 - copied_count);
      EXPECT_EQ(LinesOf(Path("view")), want);
      const auto verified = Verify(Path("view"));
      ASSERT_TRUE(verified.ok()) << verified.status().ToString();
      EXPECT_TRUE(verified->damages.empty());
      EXPECT_EQ(StateOf(source), before);
    }
  }
}

TEST_F(ViewTest, SafetensorsAreAModelToo) {
  const std::string source = Source(Format::kSafetensors, "model", 20000);
  std::ofstream(source + "/config.json") << "{\"heads\": 4}";
  ASSERT_TRUE(View(source, Path("view")).ok());
  EXPECT_EQ(BytesOf(Path("view/config.json")), "{\"heads\": 4}");
  EXPECT_EQ(LinesOf(Path("view/model.safetensors.index.json")),
            LinesOf(source));
  EXPECT_TRUE(fs::is_symlink(Path("view/model-00001-of-00003.safetensors")) ||
              fs::is_symlink(Path("view/model-00001-of-00002.safetensors")));
}

TEST_F(ViewTest, CompressedAndCastAreCopiedAndNamed) {
  ASSERT_TRUE(
      Save(Path("zstd"), SomeTree(), {.compression = Compression::kZstd}).ok());
  auto view = View(Path("zstd"), Path("view"));
  ASSERT_TRUE(view.ok()) << view.status().ToString();
  EXPECT_EQ(LinesOf(Path("view")), LinesOf(Path("zstd")));
  ASSERT_FALSE(view->copied.empty());
  EXPECT_THAT(view->copied[0].why, HasSubstr("compressed with zstd"));

  const std::string source = Source(Format::kSafetensors, "model.safetensors");
  ViewOptions options;
  options.map.casts = {{"a", DType::kFloat16}};
  view = View(source, Path("cast"), options);
  ASSERT_TRUE(view.ok()) << view.status().ToString();
  ASSERT_EQ(view->copied.size(), 1u);
  EXPECT_EQ(view->copied[0].leaf, "a");
  EXPECT_EQ(view->copied[0].why, "cast to float16");
  EXPECT_EQ(view->referred_leaf_count, 3u);

  options.must_refer = true;
  const auto refused = View(source, Path("refused"), options);
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().ToString(),
              HasSubstr("leaf a would have to be copied: cast to float16"));
  EXPECT_FALSE(fs::exists(Path("refused")));
}

TEST_F(ViewTest, LinksOfEveryKind) {
  const std::string source = Source(Format::kSafetensors, "model.safetensors");
  const std::vector<std::string> want = LinesOf(source);
  for (const LinkKind kind :
       {LinkKind::kSymbolic, LinkKind::kHard, LinkKind::kCopy}) {
    const std::string name(LinkKindName(kind));
    SCOPED_TRACE(name);
    ASSERT_EQ(LinkKindFromName(name), kind);
    ViewOptions options;
    options.link = kind;
    const auto view = View(source, Path(name), options);
    ASSERT_TRUE(view.ok()) << view.status().ToString();
    EXPECT_EQ(LinesOf(Path(name)), want);
  }
  // Move both the view and its source.
  fs::create_directory(Path("other"));
  fs::rename(Path("symlink"), Path("other/symlink"));
  fs::rename(source, Path("model2.safetensors"));
  EXPECT_EQ(LinesOf(Path("copy")), want);
  EXPECT_EQ(LinesOf(Path("hard")), want);
  const auto gone = Open(Path("other/symlink"));
  EXPECT_EQ(gone.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(gone.status().ToString(), HasSubstr("model.safetensors is gone"));
}

// The kernel may refuse to copy from one file system to another.
TEST_F(ViewTest, CopiesComeFromAnotherFileSystem) {
  std::string other = "/dev/shm/holdfast-view.XXXXXX";
  if (::mkdtemp(other.data()) == nullptr) GTEST_SKIP() << "no such directory";
  const std::string source = Source(Format::kSafetensors, "model.safetensors");
  ViewOptions options;
  options.link = LinkKind::kCopy;
  const auto view = View(source, other + "/view", options);
  EXPECT_TRUE(view.ok()) << view.status().ToString();
  EXPECT_EQ(LinesOf(other + "/view"), LinesOf(source));
  fs::remove_all(other);
}

TEST_F(ViewTest, ASourceThatChangedIsNoticed) {
  const std::string source = Source(Format::kSafetensors, "model.safetensors");
  ASSERT_TRUE(View(source, Path("view")).ok());
  std::string bytes = BytesOf(source);
  bytes.back() ^= 1;
  std::ofstream(source, std::ios::binary) << bytes;
  fs::last_write_time(
      source, fs::file_time_type::clock::now() + std::chrono::seconds(5));
  for (const Status& status :
       {Open(Path("view")).status(), Load(Path("view")).status()}) {
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_THAT(status.ToString(), HasSubstr("model.safetensors has changed"));
  }
  const auto verified = Verify(Path("view"));
  ASSERT_TRUE(verified.ok()) << verified.status().ToString();
  ASSERT_EQ(verified->damages.size(), 1u);
  EXPECT_THAT(verified->damages[0].status.ToString(),
              HasSubstr("model.safetensors has changed"));
  // Without verification, a reader gets the bytes as they are.
  EXPECT_TRUE(Open(Path("view"), {.verify = false}).ok());

  std::ofstream(source, std::ios::binary | std::ios::app) << "x";
  EXPECT_THAT(Open(Path("view")).status().ToString(), HasSubstr("bytes, want"));
}

// The change does not alter the file's size or time.
TEST_F(ViewTest, ChecksumsFindAFlippedBit) {
  const std::string source = Source(Format::kSafetensors, "model.safetensors");
  ViewOptions options;
  options.checksums = true;
  ASSERT_TRUE(View(source, Path("view"), options).ok());
  const auto verified = Verify(Path("view"));
  ASSERT_TRUE(verified.ok());
  EXPECT_TRUE(verified->damages.empty());
  EXPECT_EQ(verified->checksummed_chunk_count, verified->chunk_count);
  const fs::file_time_type time = fs::last_write_time(source);
  std::string bytes = BytesOf(source);
  bytes.back() ^= 1;
  std::ofstream(source, std::ios::binary) << bytes;
  fs::last_write_time(source, time);
  ASSERT_TRUE(Open(Path("view")).ok());
  EXPECT_EQ(Load(Path("view")).status().code(), StatusCode::kDataLoss);
}

// The view is copied as `holdfast cp` and `cp -r` do: times change, bytes do
// not.
TEST_F(ViewTest, AViewWithItsFilesMayBeCopied) {
  const std::string source = Source(Format::kSafetensors, "model.safetensors");
  const std::vector<std::string> want = LinesOf(source);
  for (const auto& [link, checksums] : std::vector<std::pair<LinkKind, bool>>{
           {LinkKind::kCopy, false}, {LinkKind::kHard, true}}) {
    ViewOptions options;
    options.link = link;
    options.checksums = checksums;
    options.overwrite = true;
    ASSERT_TRUE(View(source, Path("view"), options).ok());
    fs::remove_all(Path("copy"));
    fs::copy(Path("view"), Path("copy"), fs::copy_options::recursive);
    fs::last_write_time(
        Path("copy/model.safetensors"),
        fs::file_time_type::clock::now() + std::chrono::seconds(5));
    EXPECT_EQ(LinesOf(Path("copy")), want);
    const auto verified = Verify(Path("copy"));
    ASSERT_TRUE(verified.ok()) << verified.status().ToString();
    EXPECT_TRUE(verified->damages.empty());
  }
}

TEST_F(ViewTest, AnOverwriteKeepsTheSource) {
  const std::string source = Source(Format::kSafetensors, "model.safetensors");
  const std::string bytes = BytesOf(source);
  for (const LinkKind kind : {LinkKind::kSymbolic, LinkKind::kHard}) {
    ViewOptions options;
    options.link = kind;
    options.overwrite = true;
    const auto view = View(source, Path("view"), options);
    ASSERT_TRUE(view.ok()) << view.status().ToString();
  }
  const auto again = View(source, Path("view"));
  EXPECT_EQ(again.status().code(), StatusCode::kAlreadyExists);
  ASSERT_TRUE(Save(Path("view"), SomeTree(), {.overwrite = true}).ok());
  EXPECT_EQ(BytesOf(source), bytes);
}

TEST_F(ViewTest, ATargetThatHoldsTheSourceIsRefused) {
  const std::string source = Source(Format::kOrbax, "saved");
  const std::string before = StateOf(source);
  fs::create_directory_symlink(source, Path("alias"));
  ViewOptions options;
  options.overwrite = true;
  for (const std::string& target : {source, Path("alias"), Path("")}) {
    const Status status = View(source, target, options).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.ToString(), HasSubstr("the target holds the source"));
  }
  EXPECT_EQ(StateOf(source), before);
}

TEST_F(ViewTest, AViewOfAViewAndAMaterializedOne) {
  const std::string source = Source(Format::kSafetensors, "model.safetensors");
  ASSERT_TRUE(View(source, Path("view")).ok());
  const auto second = View(Path("view"), Path("second"));
  ASSERT_TRUE(second.ok()) << second.status().ToString();
  EXPECT_EQ(second->copied.size(), 0u);
  EXPECT_EQ(LinesOf(Path("second")), LinesOf(source));
  const std::vector<std::string> want = LinesOf(source);
  ASSERT_TRUE(Convert(Path("view"), Path("own")).ok());
  fs::remove(source);
  EXPECT_EQ(LinesOf(Path("own")), want);
}

// The view uses the source's checksums without reading a byte, but only those
// of complete chunks.
TEST_F(ViewTest, TakesOverTheChecksumsOfItsSource) {
  const std::string source = Source(Format::kOrbax, "");
  ViewOptions options;
  options.chunk_bytes = 4096;
  ASSERT_TRUE(View(source, Path("view"), options).ok());
  ASSERT_TRUE(View(Path("view"), Path("second"), options).ok());
  for (const std::string& view : {Path("view"), Path("second")}) {
    const auto verified = Verify(view);
    ASSERT_TRUE(verified.ok()) << verified.status().ToString();
    EXPECT_TRUE(verified->damages.empty());
    EXPECT_EQ(verified->checksummed_chunk_count, verified->chunk_count);
  }
  const std::string file = (*Open(Path("view")))->info().sources.front();
  const fs::file_time_type time = fs::last_write_time(file);
  std::string bytes = BytesOf(file);
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(file, std::ios::binary) << bytes;
  fs::last_write_time(file, time);
  EXPECT_EQ(Load(Path("view")).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(Load(Path("second")).status().code(), StatusCode::kDataLoss);
}

// Checksums of some chunks of a file say nothing about its other chunks.
TEST_F(ViewTest, ChecksumsOfAPartAreNotTakenOver) {
  const std::string source = Source(Format::kOrbax, "");
  ViewOptions options;
  options.recipe = *Recipe::Parse(
      R"({"recipe": 1, "rules": [
          {"from": "a", "to": "a.{half}", "axes": "(half r) c -> r c"},
          {"from": "c", "to": "c"}, {"from": "d", "to": "d"},
          {"drop": "b"}]})");
  options.recipe_options.sizes = {{"half", 2}};
  const auto view = View(source, Path("view"), options);
  ASSERT_TRUE(view.ok()) << view.status().ToString();
  EXPECT_EQ(view->copied.size(), 0u);
  const std::string file = (*Open(Path("view")))->info().sources.front();
  fs::last_write_time(
      file, fs::file_time_type::clock::now() + std::chrono::seconds(5));
  EXPECT_THAT(Open(Path("view")).status().ToString(),
              HasSubstr("has changed: it was written again"));
}

TEST_F(ViewTest, AsSafetensorsOfACheckpointThatIsBoth) {
  SaveOptions save;
  save.also = AlsoSafetensors(20000);
  save.compression = Compression::kNone;
  ASSERT_TRUE(Save(Path("both"), SomeTree(), save).ok());
  std::ofstream(Path("both/config.json")) << "{}";
  const std::string before = StateOf(Path("both"));
  fs::create_directory(Path("deep"));
  ViewOptions options;
  options.format = Format::kSafetensors;
  const std::string target = Path("deep/model");
  for (const LinkKind kind :
       {LinkKind::kSymbolic, LinkKind::kHard, LinkKind::kCopy}) {
    SCOPED_TRACE(LinkKindName(kind));
    options.link = kind;
    const auto view = View(Path("both"), target, options);
    ASSERT_TRUE(view.ok()) << view.status().ToString();
    EXPECT_EQ(view->referred_leaf_count, 4u);
    EXPECT_GE(view->source_file_count, 2u);
    const auto opened = Open(target);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    EXPECT_EQ((*opened)->info().format, "safetensors");
    EXPECT_EQ(LinesOf(target), LinesOf(Path("both")));
    EXPECT_EQ(BytesOf(target + "/config.json"), "{}");
    EXPECT_EQ(View(Path("both"), target, options).status().code(),
              StatusCode::kAlreadyExists);
    fs::remove(target + "/config.json");
    options.overwrite = true;
    ASSERT_TRUE(View(Path("both"), target, options).ok());
    options.overwrite = false;
    EXPECT_EQ(StateOf(Path("both")), before);
    EXPECT_EQ(std::distance(fs::directory_iterator(Path("deep")), {}), 1);
    fs::remove_all(target);
  }
  // Also make a safetensors view of a view, which has the source's file names.
  options.link = LinkKind::kSymbolic;
  const std::string model = Source(Format::kSafetensors, "model.safetensors");
  ASSERT_TRUE(View(model, Path("view")).ok());
  ASSERT_TRUE(View(Path("view"), target, options).ok());
  EXPECT_EQ(LinesOf(target), LinesOf(model));
  fs::last_write_time(
      model, fs::file_time_type::clock::now() + std::chrono::seconds(5));
  EXPECT_THAT(Open(target).status().ToString(),
              HasSubstr("model.safetensors has changed"));
  fs::remove(model);
  EXPECT_THAT(Open(target).status().ToString(),
              HasSubstr("model.safetensors is gone"));
}

// The checksums of a save apply to every view of it: a changed byte in a file
// with an unchanged time is found as damage there too.
TEST_F(ViewTest, AsSafetensorsKeepsTheChecksums) {
  SaveOptions save;
  save.also = AlsoSafetensors();
  save.compression = Compression::kNone;
  ASSERT_TRUE(Save(Path("both"), SomeTree(), save).ok());
  const std::string plain = Source(Format::kSafetensors, "plain.safetensors");
  ViewOptions options;
  options.format = Format::kSafetensors;
  ASSERT_TRUE(View(Path("both"), Path("model"), options).ok());
  ASSERT_TRUE(View(Path("model"), Path("again"), options).ok());
  ASSERT_TRUE(View(Path("model"), Path("orbax")).ok());
  fs::create_directory(Path("dir"));
  fs::rename(plain, Path("dir/model.safetensors"));
  options.checksums = true;
  ASSERT_TRUE(View(Path("dir"), Path("summed"), options).ok());
  const std::vector<std::string> views = {Path("model"), Path("again"),
                                          Path("orbax"), Path("summed"),
                                          Path("model/model.safetensors")};
  for (const std::string& view : views) {
    EXPECT_TRUE(Verify(view).value().damages.empty()) << view;
  }
  for (const std::string& source :
       {Path("both/model.safetensors"), Path("dir/model.safetensors")}) {
    const auto time = fs::last_write_time(source);
    std::string bytes = BytesOf(source);
    bytes[bytes.size() - 99] ^= 1;
    std::ofstream(source, std::ios::binary) << bytes;
    fs::last_write_time(source, time);
  }
  for (const std::string& view : views) {
    EXPECT_EQ(Load(view).status().code(), StatusCode::kDataLoss) << view;
    EXPECT_FALSE(Verify(view).value().damages.empty()) << view;
  }
}

TEST_F(ViewTest, AsSafetensorsOfAnItemInADirectory) {
  SaveOptions save;
  save.format = Format::kOrbaxV1;
  save.also = AlsoSafetensors();
  save.compression = Compression::kNone;
  const std::string mask(3000, '\1');
  const Tree tree = Tree::Dict(
      {{"mask", Tree(Array::FromBytes(DType::kBool, {1000, 3}, mask.data()))},
       {"w", Tree(RandomArray(DType::kFloat32, {1, 300, 1}, 1))}});
  ASSERT_TRUE(Save(Path("both"), tree, save).ok());
  ViewOptions options;
  options.format = Format::kSafetensors;
  const auto view = View(Path("both"), Path("model"), options);
  ASSERT_TRUE(view.ok()) << view.status().ToString();
  EXPECT_EQ(LinesOf(Path("model")), LinesOf(Path("both")));
}

TEST_F(ViewTest, AsSafetensorsOfWhatHasNoneIsRefused) {
  const std::string model = Source(Format::kSafetensors, "model.safetensors");
  ViewOptions renamed;
  renamed.map.renames = {{"a", "x", true}};
  ASSERT_TRUE(View(model, Path("renamed"), renamed).ok());
  ViewOptions cast;
  cast.map.casts = {{"a", DType::kFloat16}};
  ASSERT_TRUE(View(model, Path("cast"), cast).ok());
  ViewOptions options;
  options.format = Format::kSafetensors;
  for (const auto& [source, why] :
       std::vector<std::pair<std::string, std::string>>{
           {Path("saved"), "do not lie in files of safetensors"},
           {Path("renamed"), "its safetensors have no x"},
           {Path("cast"), "leaf a: another kind, dtype or shape there"}}) {
    const auto view = View(source, Path("target"), options);
    EXPECT_EQ(view.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(view.status().ToString(), HasSubstr(why));
    EXPECT_THAT(view.status().ToString(),
                HasSubstr("convert it to safetensors"));
  }
  EXPECT_THAT(View(model, "file:///target", options).status().ToString(),
              HasSubstr("is a path of this machine"));
  options.map.renames = {{"a", "x", true}};
  EXPECT_THAT(View(model, Path("target"), options).status().ToString(),
              HasSubstr("names and shapes are in the files"));
  EXPECT_FALSE(fs::exists(Path("target")));
}

TEST_F(ViewTest, MaterializeGivesAViewItsOwnBytes) {
  const std::string source = Source(Format::kSafetensors, "model.safetensors");
  const std::vector<std::string> want = LinesOf(source);
  ASSERT_TRUE(View(source, Path("view")).ok());
  EXPECT_EQ((*Open(Path("view")))->info().sources,
            std::vector<std::string>{fs::canonical(source).string()});
  ASSERT_TRUE(Materialize(Path("view"), Path("own")).ok());
  EXPECT_EQ(Materialize(Path("view"), Path("own")).status().code(),
            StatusCode::kAlreadyExists);
  const auto in_place = Materialize(Path("view"));
  ASSERT_TRUE(in_place.ok()) << in_place.status().ToString();
  EXPECT_GT(in_place->checked_bytes, 0u);
  fs::remove(source);
  for (const std::string& path : {Path("own"), Path("view")}) {
    EXPECT_EQ(LinesOf(path), want);
    EXPECT_TRUE((*Open(path))->info().sources.empty());
    const Status again = Materialize(path).status();
    EXPECT_EQ(again.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(again.ToString(),
                HasSubstr("it is neither a view nor a delta"));
  }
}

TEST_F(ViewTest, MaterializeOfAChangedSourceKeepsTheView) {
  const std::string source = Source(Format::kSafetensors, "model.safetensors");
  ASSERT_TRUE(View(source, Path("view")).ok());
  const fs::file_time_type time = fs::last_write_time(source);
  fs::last_write_time(source, time + std::chrono::seconds(5));
  EXPECT_EQ(Materialize(Path("view")).status().code(), StatusCode::kDataLoss);
  fs::last_write_time(source, time);
  EXPECT_EQ(LinesOf(Path("view")), LinesOf(source));
}

}  // namespace
}  // namespace holdfast
