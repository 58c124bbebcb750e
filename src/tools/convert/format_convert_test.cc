// Tests conversions to a foreign format and back: that values are equal, that
// an interrupted conversion continues, and that existing targets are not
// replaced.
#include "tools/convert/format_convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "checkpoint/test_trees.h"
#include "foreign/safetensors/safetensors.h"
#include "foreign/safetensors/safetensors_target.h"
#include "foreign/sidecar/tree_sidecar.h"
#include "holdfast/pending_save.h"
#include "tools/convert/work_directory.h"
#include "twins/file_bytes.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

std::unique_ptr<Checkpoint> OpenAny(const std::string& path) {
  auto opened = path.ends_with(".safetensors")
                    ? OpenSafetensors(Place(path), true)
                    : Open(path);
  EXPECT_TRUE(opened.ok()) << opened.status().ToString();
  return opened.ok() ? std::move(opened).value() : nullptr;
}

// Returns one line per leaf, with everything that a conversion keeps.
std::vector<std::string> LinesOf(const Checkpoint& checkpoint) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < checkpoint.leaves().size(); ++i) {
    const LeafInfo& leaf = checkpoint.leaves()[i];
    std::string line = leaf.name + " " + std::string(ValueKindName(leaf.kind));
    for (size_t k = 0; k < leaf.key.size(); ++k) {
      line += (leaf.key_kinds[k] == KeyKind::kIndex ? " #" : " ") + leaf.key[k];
    }
    if (leaf.dtype) line += " " + std::string(DTypeName(*leaf.dtype));
    line += ShapeToString(leaf.shape) + leaf.value_type + leaf.prng_impl +
            leaf.sharding_json;
    const auto digest = DigestLeaf(checkpoint, i);
    line += digest.ok() ? *digest : digest.status().ToString();
    lines.push_back(line);
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

// Returns a source of a few MiB, so that there are many pieces.
Tree LargeTree() {
  Tree tree = AllKindsTree();
  for (int i = 0; i < 6; ++i) {
    tree.Add("w" + std::to_string(i),
             Tree(RandomArray(DType::kFloat32, {64, 1000}, 300 + i)));
  }
  return tree;
}

// Faults that a safetensors writer shows on request.
struct Faults {
  std::atomic<int> writes_left{1 << 30};  // later writes fail
  std::atomic<int> sync_count{0};
  std::atomic<int> writer_count{0};
  std::atomic<int> writer_count_max{0};
  bool flips_bit = false;
};

class FaultyTarget : public FormatTarget {
 public:
  explicit FaultyTarget(Faults* faults) : faults_(faults) {}
  Status Begin(const TargetPlan& plan, const std::string& directory,
               bool resume) override {
    return base_->Begin(plan, directory, resume);
  }
  std::string OneFile() const override { return base_->OneFile(); }
  std::vector<Box> PiecesOf(size_t leaf, uint64_t bytes_max) const override {
    return base_->PiecesOf(leaf, bytes_max);
  }
  uint64_t FilePosition(size_t leaf) const override {
    return base_->FilePosition(leaf);
  }
  Result<std::string> Write(size_t leaf, const Box& box,
                            std::string_view elements) override {
    if (--faults_->writes_left < 0) {
      return ResourceExhaustedError("injected: the disk is full");
    }
    const int writer_count = ++faults_->writer_count;
    int most = faults_->writer_count_max;
    while (
        most < writer_count &&
        !faults_->writer_count_max.compare_exchange_weak(most, writer_count)) {
    }
    std::string own(elements);
    if (faults_->flips_bit) own[0] ^= 1;
    Result<std::string> mark = base_->Write(leaf, box, own);
    // Lets other threads run in the meantime.
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    --faults_->writer_count;
    return mark;
  }
  Status Restore(size_t leaf, const Box& box, std::string_view mark) override {
    return base_->Restore(leaf, box, mark);
  }
  Status SyncData() override {
    ++faults_->sync_count;
    return base_->SyncData();
  }
  Status Finish() override { return base_->Finish(); }

 private:
  Faults* faults_;
  std::unique_ptr<FormatTarget> base_ = MakeSafetensorsTarget();
};

FormatAccess FaultyAccess(Faults* faults) {
  return {Format::kSafetensors, std::make_unique<FaultyTarget>(faults),
          [](const std::string& path) {
            return OpenSafetensors(Place(path), true);
          }};
}

class FormatConvert : public ::testing::Test {
 protected:
  FormatConvert() {
    source_path_ = scratch_.path() + "/source";
    SaveOptions save;
    save.sync = false;
    save.chunk_bytes = 20000;
    EXPECT_TRUE(Save(source_path_, LargeTree(), save).ok());
    source_ = OpenAny(source_path_);
    options_.sync = false;
    options_.format = Format::kSafetensors;
    options_.run.threads = 2;
    options_.run.memory_bytes = 100000;
    options_.part_bytes = 50000;
  }

  std::string PathOf(const std::string& name) const {
    return scratch_.path() + "/" + name;
  }

  Result<ConvertResult> ConvertTo(const std::string& name,
                                  Faults* faults = nullptr) {
    Faults none;
    return ConvertToFormat(*source_, FilesHash(Place(source_path_)),
                           Place(PathOf(name)), options_,
                           FaultyAccess(faults != nullptr ? faults : &none));
  }

  ScratchDirectory scratch_;
  std::string source_path_;
  std::unique_ptr<Checkpoint> source_;
  ConvertOptions options_;
};

TEST_F(FormatConvert, ThereAndBack) {
  const auto there = Convert(source_path_, PathOf("a.safetensors"), options_);
  ASSERT_TRUE(there.ok()) << there.status().ToString();
  EXPECT_EQ(there->leaf_count, source_->leaves().size());
  EXPECT_EQ(there->checked_bytes, there->decoded_bytes);
  EXPECT_LE(there->waiting_bytes_peak, 50000u);
  EXPECT_FALSE(fs::exists(PathOf("a.safetensors.holdfast-convert-tmp")));
  const auto foreign = OpenAny(PathOf("a.safetensors"));
  EXPECT_EQ(LinesOf(*foreign), LinesOf(*source_));
  for (const Format format : {Format::kOrbax, Format::kOrbaxV1}) {
    ConvertOptions back;
    back.sync = false;
    back.format = format;
    const std::string target = PathOf(std::string(FormatName(format)));
    const auto again = ConvertFrom(*foreign, target, back);
    ASSERT_TRUE(again.ok()) << again.status().ToString();
    EXPECT_EQ(LinesOf(*OpenAny(target)), LinesOf(*source_));
    EXPECT_TRUE(Verify(target)->damages.empty());
  }
}

TEST_F(FormatConvert, RulesAndReport) {
  options_.map.renames = {{"w(\\d)", "weights/\\1"}};
  options_.map.drop = {"arrays", "list"};
  options_.map.casts = {{"w0", DType::kFloat64}};
  for (const auto& [format, name] :
       {std::pair(Format::kSafetensors, "a.safetensors"),
        std::pair(Format::kOrbax, "orbax")}) {
    options_.format = format;
    const auto done = Convert(source_path_, PathOf(name), options_);
    ASSERT_TRUE(done.ok()) << done.status().ToString();
    const auto target = OpenAny(PathOf(name));
    const size_t cast = *target->Find("weights.0");
    EXPECT_EQ(target->leaves()[cast].dtype, DType::kFloat64);
    EXPECT_EQ(*DigestLeaf(*target, *target->Find("weights.3")),
              *DigestLeaf(*source_, *source_->Find("w3")));
    EXPECT_FALSE(target->Find("list.0").ok());
    const std::string text = ConvertReportText(done->report);
    EXPECT_THAT(text, HasSubstr("w0 -> weights.0: renamed; cast to float64\n"));
    EXPECT_THAT(text, HasSubstr("list.0: left out\n"));
    EXPECT_THAT(ConvertReportJson(done->report),
                HasSubstr(R"({"leaf":"w1","new_name":"weights.1",)"
                          R"("what":"renamed"})"));
  }
}

TEST_F(FormatConvert, NeverHalfATarget) {
  std::ofstream(PathOf("a.safetensors")) << "no checkpoint";
  EXPECT_EQ(ConvertTo("a.safetensors").status().code(),
            StatusCode::kAlreadyExists);
  options_.overwrite = true;
  EXPECT_EQ(ConvertTo("a.safetensors").status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(BytesOf(PathOf("a.safetensors")), "no checkpoint");
  fs::remove(PathOf("a.safetensors"));
  ASSERT_TRUE(ConvertTo("a.safetensors").ok());
  const std::string bytes = BytesOf(PathOf("a.safetensors"));
  Faults faults;
  faults.flips_bit = true;
  const Status wrong = ConvertTo("b.safetensors", &faults).status();
  EXPECT_EQ(wrong.code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(wrong.message()),
              HasSubstr("are not those of the source"));
  EXPECT_FALSE(fs::exists(PathOf("b.safetensors")));
  EXPECT_FALSE(fs::exists(PathOf("b.safetensors.holdfast-convert-tmp")));
}

// Whichever write fails, the next run continues, and the file is the same as
// without the failure.
TEST_F(FormatConvert, GoesOnAfterAnyFailure) {
  Faults none;
  ASSERT_TRUE(ConvertTo("whole.safetensors", &none).ok());
  EXPECT_GT(none.sync_count, 20);
  const int write_count = (1 << 30) - none.writes_left;
  const std::string want = BytesOf(PathOf("whole.safetensors"));
  int resumed_count = 0;
  for (int k = 0; k < write_count; k += 7) {
    const std::string name = "cut" + std::to_string(k) + ".safetensors";
    Faults faults;
    faults.writes_left = k;
    const Status full = ConvertTo(name, &faults).status();
    EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(full.message()), HasSubstr("the disk is full"));
    EXPECT_FALSE(fs::exists(PathOf(name)));
    const std::string work = PathOf(name) + ".holdfast-convert-tmp";
    EXPECT_EQ(fs::exists(work), k > 0);
    if (k > 0) {
      EXPECT_THAT(std::string(full.message()),
                  HasSubstr("kept in " + work +
                            ": make room, and the same call continues"));
    }
    Faults later;
    const auto done = ConvertTo(name, &later);
    ASSERT_TRUE(done.ok()) << done.status().ToString();
    EXPECT_EQ(done->report.is_resumed, k > 0) << k;
    EXPECT_EQ((1 << 30) - later.writes_left, write_count - k);
    resumed_count += done->report.is_resumed;
    EXPECT_EQ(BytesOf(PathOf(name)), want) << k;
    EXPECT_FALSE(fs::exists(PathOf(name + ".holdfast-convert-tmp")));
    fs::remove(PathOf(name));
  }
  EXPECT_GT(resumed_count, 5);
}

TEST_F(FormatConvert, BeginsAnewWhenItMust) {
  const auto cut = [&] {
    Faults faults;
    faults.writes_left = 20;
    EXPECT_FALSE(ConvertTo("t.safetensors", &faults).ok());
    EXPECT_TRUE(fs::exists(PathOf("t.safetensors.holdfast-convert-tmp")));
  };
  const auto again = [&] {
    const auto done = ConvertTo("t.safetensors");
    EXPECT_TRUE(done.ok()) << done.status().ToString();
    fs::remove(PathOf("t.safetensors"));
    EXPECT_FALSE(done->report.is_resumed);
    EXPECT_EQ(done->report.kept_bytes, 0u);
    return done->report.resume_text;
  };
  cut();
  options_.map.casts = {{"w1", DType::kFloat16}};
  EXPECT_EQ(again(), "started over: an earlier conversion had other options");
  cut();
  options_.restart = true;
  EXPECT_EQ(again(), "started over: restart was requested");
  options_.restart = false;
  cut();
  fs::resize_file(PathOf("t.safetensors.holdfast-convert-tmp/journal"), 20);
  EXPECT_EQ(again(),
            "started over: the journal of an earlier conversion is damaged");
  cut();
  fs::remove(PathOf("t.safetensors.holdfast-convert-tmp/journal"));
  EXPECT_EQ(again(), "started over: an earlier conversion left no journal");
  cut();
  fs::last_write_time(source_path_ + "/_METADATA", fs::file_time_type::min());
  EXPECT_THAT(again(), HasSubstr("has changed"));
}

// More writers than a batch has pieces would read into uncounted memory.
TEST_F(FormatConvert, AsManyWritersAsTheBudgetHolds) {
  options_.run.threads = 32;
  Faults faults;
  ASSERT_TRUE(ConvertTo("t.safetensors", &faults).ok());
  EXPECT_GE(faults.writer_count_max, 1);
  EXPECT_LE(faults.writer_count_max, 4);
}

TEST_F(FormatConvert, OrbaxReplacesForeignTargets) {
  const auto want = LinesOf(*source_);
  for (const Format foreign : {Format::kSafetensors, Format::kNpz, Format::kDcp,
                               Format::kTorchDist, Format::kMegatronZarr}) {
    SCOPED_TRACE(FormatName(foreign));
    // The name has no suffix, because the suffix would also be a reason to
    // refuse.
    const std::string target = PathOf(std::string(FormatName(foreign)));
    ConvertOptions there;
    there.sync = false;
    there.format = foreign;
    ASSERT_TRUE(Convert(source_path_, target, there).ok());
    const uint64_t before = FilesHash(Place(target));
    EXPECT_NE(before, 0u);
    EXPECT_EQ(FilesHash(Place(target + ".missing")), 0u);
    ConvertOptions over;
    over.sync = false;
    over.format = Format::kOrbax;
    EXPECT_EQ(Convert(source_path_, target, over).status().code(),
              StatusCode::kAlreadyExists);
    over.overwrite = true;
    std::atomic<bool> cancel = false;
    ConvertOptions cut = over;
    cut.run.cancel = &cancel;
    // Cancel at the last moment: everything is written and is being compared.
    cut.run.progress = [&](const Progress& progress) {
      if (progress.phase == "check") cancel = true;
    };
    cut.chunk_bytes = 20000;
    cut.run.memory_bytes = 100000;
    EXPECT_EQ(Convert(source_path_, target, cut).status().code(),
              StatusCode::kCancelled);
    EXPECT_EQ(FilesHash(Place(target)), before);
    // Convert in place: the target replaces its own source.
    const auto done = Convert(target, target, over);
    ASSERT_TRUE(done.ok()) << done.status().ToString();
    EXPECT_GT(done->checked_bytes, 0u);
    const auto opened = Open(target);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    EXPECT_EQ((*opened)->info().format, "orbax");
    EXPECT_EQ(LinesOf(**opened), want);
    EXPECT_TRUE(Verify(target)->damages.empty());
    EXPECT_FALSE(fs::exists(target + ".holdfast-convert-tmp"));
    EXPECT_FALSE(fs::exists(target + ".orbax-checkpoint-tmp"));
  }
}

TEST_F(FormatConvert, ShardsAreForFormatsThatTakeThem) {
  options_.map.shards = {{"w*", {4, 1}}};
  for (const Format format :
       {Format::kOrbax, Format::kOrbaxV1, Format::kSafetensors, Format::kNpz}) {
    options_.format = format;
    const Status status = Convert(source_path_, PathOf("t"), options_).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("convert to " + std::string(FormatName(format)) +
                          ": shards w*: only megatron-zarr, dcp and "
                          "torch-dist take shards"));
    EXPECT_FALSE(fs::exists(PathOf("t")));
  }
  for (const Format format : {Format::kMegatronZarr, Format::kDcp}) {
    options_.format = format;
    const std::string target = PathOf(std::string(FormatName(format)));
    const auto done = Convert(source_path_, target, options_);
    ASSERT_TRUE(done.ok()) << done.status().ToString();
    const auto opened = OpenAny(target);
    EXPECT_EQ(opened->leaves()[*opened->Find("w0")].chunk_shape,
              (Shape{16, 1000}));
  }
}

// Without a format option, the target's name decides the format, whatever the
// source is.
TEST_F(FormatConvert, TheTargetsNameSaysTheFormat) {
  options_.format.reset();
  for (const auto& [name, format] :
       {std::pair("m.safetensors", "safetensors"), std::pair("m.npz", "npz")}) {
    const auto done = Convert(source_path_, PathOf(name), options_);
    ASSERT_TRUE(done.ok()) << done.status().ToString();
    EXPECT_EQ(FormatName(done->format), format);
    EXPECT_TRUE(fs::is_regular_file(PathOf(name)));
    EXPECT_EQ(OpenAny(PathOf(name))->info().format, format);
  }
  for (const char* name : {"m.pt", "m.pth", "m.bin"}) {
    EXPECT_EQ(Convert(source_path_, PathOf(name), options_).status().code(),
              StatusCode::kInvalidArgument);
    EXPECT_FALSE(fs::exists(PathOf(name)));
  }
  options_.format = Format::kOrbax;
  EXPECT_EQ(
      Convert(source_path_, PathOf("n.safetensors"), options_).status().code(),
      StatusCode::kInvalidArgument);
  EXPECT_FALSE(fs::exists(PathOf("n.safetensors")));
}

// Options that the new format cannot use are refused, not ignored.
TEST_F(FormatConvert, OptionsOfOtherFormatsAreRefused) {
  ConvertOptions zarr, directories, packed, cut, bounded;
  zarr.zarr_format = 3;
  directories.use_ocdbt = false;
  packed.compression = Compression::kFast;
  cut.chunk_bytes = 1000;
  bounded.shard_bytes_max = 1000;
  const auto code_of = [&](Format format, ConvertOptions options) {
    options.format = format;
    options.sync = false;
    options.overwrite = true;
    return Convert(source_path_, PathOf("n"), options).status().code();
  };
  for (const Format format : {Format::kSafetensors, Format::kNpz, Format::kDcp,
                              Format::kTorchDist, Format::kMegatronZarr}) {
    SCOPED_TRACE(FormatName(format));
    for (const ConvertOptions& options : {zarr, directories, packed}) {
      EXPECT_EQ(code_of(format, options), StatusCode::kInvalidArgument);
    }
    if (format == Format::kMegatronZarr) continue;
    EXPECT_EQ(code_of(format, cut), StatusCode::kInvalidArgument);
  }
  for (const Format format : {Format::kOrbax, Format::kOrbaxV1, Format::kNpz,
                              Format::kMegatronZarr}) {
    SCOPED_TRACE(FormatName(format));
    EXPECT_EQ(code_of(format, bounded), StatusCode::kInvalidArgument);
  }
  ConvertOptions backwards;
  backwards.recipe_options.reverse = true;
  EXPECT_EQ(code_of(Format::kOrbax, backwards), StatusCode::kInvalidArgument);
  EXPECT_FALSE(fs::exists(PathOf("n")));
}

// A conversion to one file is refused if its size limit would require several.
TEST_F(FormatConvert, OneFileIsNotCutIntoSeveral) {
  options_.format.reset();
  options_.shard_bytes_max = 1;
  const Status status =
      Convert(source_path_, PathOf("m.safetensors"), options_).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("one file"));
  EXPECT_FALSE(fs::exists(PathOf("m.safetensors")));
}

// Each of these targets looks like a URL or home directory, but is not in any
// object store.
TEST_F(FormatConvert, AWrongTargetSaysWhy) {
  for (const auto& [target, why] :
       std::vector<std::pair<std::string, std::string>>{
           {"~/model", "a shell expands"},
           {"file:///x/model", "is a path of this machine"},
           {"nowhere://x/model", "no store for the scheme"}}) {
    EXPECT_THAT(Convert(source_path_, target, options_).status().ToString(),
                HasSubstr(why));
  }
}

// Every item of a composite has its own sidecar.
TEST_F(FormatConvert, SidecarsOfAComposite) {
  const std::string composite = PathOf("composite");
  const auto pending = PendingSave::Begin(composite, {.sync = false});
  ASSERT_TRUE(pending.ok()) << pending.status().ToString();
  for (const std::string item : {"params", "state"}) {
    TreeSidecar sidecar;
    sidecar.is_partial = true;
    SidecarLeaf& leaf = sidecar.leaves.emplace_back();
    leaf.key = {"in", "blob"};
    leaf.kind = ValueKind::kBytes;
    leaf.stored = "in.blob";
    SaveOptions save;
    save.sync = false;
    save.item_custom_metadata = R"({"note":1})";
    save.item_documents =
        "{\"" + std::string(kSidecarKey) + "\":" + SidecarText(sidecar) + "}";
    Tree inner = Tree::Dict();
    inner.Add("blob", Tree(Array::FromBytes(DType::kUint8, {3}, "a\0b")));
    inner.Add("w", Tree(RandomArray(DType::kUint8, {3}, 5)));
    Tree tree = Tree::Dict();
    tree.Add("in", std::move(inner));
    ASSERT_TRUE((*pending)->SaveItem(item, tree, save).ok());
  }
  ASSERT_TRUE((*pending)->Commit({}).ok());

  const auto source = OpenAny(composite);
  for (const std::string item : {"params", "state"}) {
    const size_t blob = *source->Find(item + ".in.blob");
    EXPECT_EQ(source->leaves()[blob].kind, ValueKind::kBytes);
    EXPECT_EQ(source->leaves()[blob].key,
              (std::vector<std::string>{item, "in", "blob"}));
    EXPECT_EQ(*source->ReadText(blob), std::string("a\0b", 3));
    EXPECT_EQ(source->leaves()[*source->Find(item + ".in.w")].kind,
              ValueKind::kArray);
  }
  const auto loaded = Load(composite);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  const Tree* const bytes = loaded->tree.FindPath({"state", "in", "blob"});
  ASSERT_NE(bytes, nullptr);
  EXPECT_EQ(bytes->leaf_kind(), LeafKind::kBytes);
  const auto want = LinesOf(*source);
  ASSERT_TRUE(Convert(composite, PathOf("there.safetensors"), options_).ok());
  for (const std::string& from : {composite, PathOf("there.safetensors")}) {
    for (const Format format : {Format::kOrbax, Format::kOrbaxV1}) {
      ConvertOptions back;
      back.sync = false;
      back.format = format;
      back.overwrite = true;
      const auto done = Convert(from, PathOf("back"), back);
      ASSERT_TRUE(done.ok()) << done.status().ToString();
      EXPECT_EQ(LinesOf(*OpenAny(PathOf("back"))), want);
    }
  }
}

TEST_F(FormatConvert, OneConversionAtATime) {
  const auto work = WorkDirectory::Begin(Place(PathOf("t.safetensors")), {1, 2},
                                         {.sync = false});
  ASSERT_TRUE(work.ok());
  EXPECT_EQ(ConvertTo("t.safetensors").status().code(),
            StatusCode::kAlreadyExists);
}

// Runs `body` in a child process that kills itself by SIGKILL at progress call
// `kill_at`. Returns false if the child ended before that.
bool IsKilled(int kill_at, ConvertOptions options,
              const std::function<Status(const ConvertOptions&)>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::atomic<int> count{0};
    options.run.progress = [&](const Progress&) {
      if (++count >= kill_at) ::kill(::getpid(), SIGKILL);
    };
    ::_exit(body(options).ok() ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status)) {
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  return WIFSIGNALED(status);
}

// Kills the conversion again and again, each time a bit later, until a kill
// comes too late. The result must equal that of a run without kills.
TEST_F(FormatConvert, KillsOfAForeignTarget) {
  ASSERT_TRUE(ConvertTo("whole.safetensors").ok());
  const std::string want = BytesOf(PathOf("whole.safetensors"));
  for (const int step : {3, 11, 40}) {
    const std::string name = PathOf(std::to_string(step) + ".safetensors");
    int kill_count = 0;
    while (IsKilled(step * ++kill_count, options_, [&](const auto& options) {
      return Convert(source_path_, name, options).status();
    })) {
      ASSERT_LT(kill_count, 1000);
      EXPECT_FALSE(fs::exists(name));
    }
    EXPECT_GT(kill_count, 2);
    EXPECT_EQ(BytesOf(name), want);
    EXPECT_FALSE(fs::exists(name + ".holdfast-convert-tmp"));
  }
}

TEST_F(FormatConvert, KillsOfAnOrbaxTarget) {
  const auto want = LinesOf(*source_);
  options_.chunk_bytes = 15000;
  uint64_t kept_bytes = 0;
  for (int round = 0; round < 6; ++round) {
    options_.format = round % 2 == 0 ? Format::kOrbax : Format::kOrbaxV1;
    options_.use_ocdbt = round % 3 != 0;
    options_.part_bytes = 100000 << (round % 3);
    const std::string name = PathOf("o" + std::to_string(round));
    int kill_count = 0;
    while (IsKilled(8 * ++kill_count, options_, [&](const auto& options) {
      return Convert(source_path_, name, options).status();
    })) {
      ASSERT_LT(kill_count, 1000);
      if (fs::exists(name)) break;  // killed while it was checked
    }
    EXPECT_GT(kill_count, 2);
    EXPECT_EQ(LinesOf(*OpenAny(name)), want);
    EXPECT_TRUE(Verify(name)->damages.empty());
    EXPECT_FALSE(fs::exists(name + ".orbax-checkpoint-tmp"));
    // Convert again and cancel it, to see what was kept.
    std::atomic<bool> cancel = false;
    ConvertOptions cut = options_;
    cut.run.cancel = &cancel;
    cut.run.progress = [&](const Progress& progress) {
      if (progress.done_bytes > progress.total_bytes / 2) cancel = true;
    };
    EXPECT_EQ(Convert(source_path_, name + "c", cut).status().code(),
              StatusCode::kCancelled);
    const auto done = Convert(source_path_, name + "c", options_);
    ASSERT_TRUE(done.ok()) << done.status().ToString();
    EXPECT_EQ(done->checked_bytes, done->decoded_bytes - (8 + 8 + 1));
    kept_bytes += done->report.kept_bytes;
    EXPECT_EQ(LinesOf(*OpenAny(name + "c")), want);
  }
  EXPECT_GT(kept_bytes, 0u);
}

}  // namespace
}  // namespace holdfast
